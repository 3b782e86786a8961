//! The reasons for which an experiment can lack a record (its result).

/// Reason why an experiment has no record (result).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MissingRecordReason {
    /// The user ended the run.
    Interrupted,
    /// The experiment cannot be run; the text is the reason.
    NotRun(String),
}

/// Returns the sentence that this binary cannot run an experiment because of `part`, a part of the experiment's
/// definition. The definitions are in the same binary, so the sentence does not ask the user to correct one.
pub(crate) fn unsupported_part_sentence(part: &str, why: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "{part} of this experiment is not supported by wearwell {version}: {why}; report this as a defect"
    )
}
