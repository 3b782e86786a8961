//! Which code made a result: digests of the sources, by which kept results are known to be of today.

use sha2::{Digest, Sha256};

/// Digest of the code that makes the figures of a run: the engine's, the readers', the configuration's and this crate's, without
/// comments and layout. Whatever changes it may have changed every figure.
pub fn of_runs() -> String {
    let around = [wearwell_trace::CODE_DIGEST, wearwell_config::CODE_DIGEST, env!("CODE_DIGEST")].join("-");
    format!("{}-{}", wearwell::CODE_DIGEST, digest(&around))
}

/// The first 64 bits of SHA-256.
pub fn digest(text: &str) -> String {
    let digest = Sha256::digest(text);
    format!("{:016x}", u64::from_be_bytes(std::array::from_fn(|k| digest[k])))
}
