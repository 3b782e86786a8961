//! Sources of requests of experiments: generated loads and original traces.

use std::path::PathBuf;

use wearwell_replay::input::Input;
use wearwell_trace::OpenOptions;

use super::missing_record::unsupported_part_sentence;

/// Source of the requests that an experiment replays or counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RequestSource {
    /// A generated load that replaces no input of the paper: one that the paper itself uses or, if the paper generates
    /// no loads, one that was made for this project. The text is its specification.
    Generated(String),
    /// A generated load that replaces a trace or an application of the paper; the text is its specification.
    Substitute(String),
    /// The original trace of the paper; the path is that of its file.
    Original(PathBuf),
}

impl RequestSource {
    /// Returns the name of the source: the specification of the generated load, or the path of the trace.
    pub fn name(&self) -> String {
        match self {
            Self::Generated(spec) | Self::Substitute(spec) => spec.clone(),
            Self::Original(path) => path.display().to_string(),
        }
    }

    /// Returns the input of the replay library. The error is a sentence that this binary does not know the load.
    pub(crate) fn input(&self) -> Result<Input, String> {
        match self {
            Self::Generated(spec) | Self::Substitute(spec) => {
                Input::of_generator_spec(spec).map_err(|error| {
                    unsupported_part_sentence(&format!("the workload `{spec}`"), &error.to_string())
                })
            }
            Self::Original(path) => Ok(Input::Trace { path: path.clone(), options: OpenOptions::default() }),
        }
    }
}
