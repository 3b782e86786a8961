//! The order of the options on the command line that are settings.
//!
//! Frequent settings have options of their own, and all have `--set`. Of several values of a key the last counts, in
//! whatever form it is given, as docs/configuration.md says. The parser keeps the values of each option, but not the
//! order of different options; so the positions of all options are kept here.

use std::collections::BTreeMap;

use clap::{ArgMatches, Args, Command, FromArgMatches};

/// Identifier of the option `--set` in every command that has it.
const SET_OPTION_ID: &str = "settings";

/// Positions of the values of each option on the command line, by the identifier of the option. They are collected
/// while the other arguments of a command are parsed, and add no option to the command.
#[derive(Clone, Default)]
pub(crate) struct OptionOrder(BTreeMap<String, Vec<usize>>);

impl OptionOrder {
    /// Returns all settings in the order of the command line: the values `set` of `--set`, and those that other options
    /// are short for. `options` has the identifier of each such option with its setting, or `None` if the option is not
    /// given.
    pub(crate) fn settings_in_order<'a>(
        &self,
        options: impl IntoIterator<Item = (&'a str, Option<String>)>,
        set: &[String],
    ) -> Vec<String> {
        let of_options = options
            .into_iter()
            .filter_map(|(option, setting)| setting.map(|setting| (self.last_position(option), setting)));
        let mut settings: Vec<(usize, String)> =
            of_options.chain(self.set_positions().zip(set.iter().cloned())).collect();
        settings.sort_by_key(|(position, _)| *position);
        settings.into_iter().map(|(_, setting)| setting).collect()
    }

    /// Returns whether one of the settings `set`, given by `--set` after this option, has the `key` for which the
    /// option is a short form.
    pub(crate) fn is_replaced_by_setting(&self, option: &str, key: &str, set: &[String]) -> bool {
        self.set_positions().zip(set).any(|(position, setting)| {
            let key_of_setting = setting.split('=').next().unwrap_or_default().trim();
            key_of_setting == key && position > self.last_position(option)
        })
    }

    /// Returns the position of the last value of the option on the command line; 0 if the option is not given.
    fn last_position(&self, option: &str) -> usize {
        self.0.get(option).and_then(|positions| positions.last()).copied().unwrap_or_default()
    }

    /// Returns the positions of the values of `--set` on the command line.
    fn set_positions(&self) -> impl Iterator<Item = usize> {
        self.0.get(SET_OPTION_ID).into_iter().flatten().copied()
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
