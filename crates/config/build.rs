//! Build script that gives the crate the digest of its source code.

fn main() {
    wearwell_digest::export_source_digest(|_| true);
}
