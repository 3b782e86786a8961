//! The `wearwell` command.
fn main() {}
