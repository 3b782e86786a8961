//! Digests of the source code that made a result; a stored result is reused only if its digest is that of today's code.

use sha2::{Digest, Sha256};

/// Returns a digest of all code that determines the figures of a run: the engine, the trace readers, the configuration
/// and this crate, without comments and layout. A change of any of them may have changed every figure.
pub fn simulation_code_digest() -> String {
    let around = [wearwell_trace::CODE_DIGEST, wearwell_config::CODE_DIGEST, env!("CODE_DIGEST")].join("-");
    format!("{}-{}", wearwell::CODE_DIGEST, short_sha256(&around))
}

/// Returns the first 64 bits of the SHA-256 of `text`, in hexadecimal.
pub fn short_sha256(text: &str) -> String {
    let digest = Sha256::digest(text);
    format!("{:016x}", u64::from_be_bytes(std::array::from_fn(|k| digest[k])))
}
