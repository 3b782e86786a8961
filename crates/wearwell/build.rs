//! Gives the crate the digest of its code.

fn main() {
    wearwell_digest::export_source_digest(|_| true);
}
