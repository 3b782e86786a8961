//! The order on the command line of all options that set configuration values.
//!
//! Frequent settings have options of their own, and every setting can be given by `--set`. If a setting is given
//! several times, the last value counts, as docs/configuration.md says. The parser keeps the values of each option, but
//! not the order of different options; so the positions of all options are kept here.

use std::collections::BTreeMap;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use wearwell_config::key_of_setting;

/// Identifier of the option `--set` in every command that has it.
const ID_OF_OPTION_SET: &str = "settings";

/// Positions of the values of each option on the command line, by the identifier of the option. They are collected
/// while the other arguments of a command are parsed, and add no option to the command.
#[derive(Clone, Default)]
pub(crate) struct OptionOrder(BTreeMap<String, Vec<usize>>);

impl OptionOrder {
    /// Returns all settings in the order of the command line: the values `set` of `--set`, and the settings for which
    /// other options are short forms. `options` has the identifier of each such option with its setting, or `None` if
    /// the option is not given.
    pub(crate) fn settings_in_order<'a>(
        &self,
        options: impl IntoIterator<Item = (&'a str, Option<String>)>,
        set: &[String],
    ) -> Vec<String> {
        let of_options = options
            .into_iter()
            .filter_map(|(option, setting)| setting.map(|setting| (self.last_position(option), setting)));
        let mut settings: Vec<(usize, String)> =
            of_options.chain(self.positions_of_set_option().zip(set.iter().cloned())).collect();
        settings.sort_by_key(|(position, _)| *position);
        settings.into_iter().map(|(_, setting)| setting).collect()
    }

    /// Returns whether an option has no effect because a `--set` after it sets the same `key`. `set` are the values of
    /// `--set`.
    pub(crate) fn is_replaced_by_setting(&self, option: &str, key: &str, set: &[String]) -> bool {
        self.positions_of_set_option().zip(set).any(|(position, setting)| {
            key_of_setting(setting) == key && position > self.last_position(option)
        })
    }

    /// Returns the position of the last value of the option on the command line; 0 if the option is not given.
    fn last_position(&self, option: &str) -> usize {
        self.0.get(option).and_then(|positions| positions.last()).copied().unwrap_or_default()
    }

    /// Returns the positions of the values of `--set` on the command line.
    fn positions_of_set_option(&self) -> impl Iterator<Item = usize> {
        self.0.get(ID_OF_OPTION_SET).into_iter().flatten().copied()
    }
}

impl FromArgMatches for OptionOrder {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let positions_of = |id: &clap::Id| {
            let positions = matches.indices_of(id.as_str())?.collect();
            Some((id.to_string(), positions))
        };
        Ok(Self(matches.ids().filter_map(positions_of).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for OptionOrder {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}
