//! Atomic remap commands in NVRAM: which recorded commands are complete.
//!
//! A remap command of several pages can be atomic (Remap-SSD, section 4.3). Its entries are recorded together and have
//! a third word with the first target and the length of the command ([`RemapCommand`]), 24 bytes in all. Entry `k`
//! takes the `k`th of consecutive sequence numbers, so the number of the first entry identifies the command. Recovery
//! discards a command of which an entry is missing, and zeroes its entries before anything else is recorded.
//!
//! Compaction, GC and erases drop entries one by one, which would make a complete command look torn. So before a
//! reverse map drops its first entry after a command, it stores the current sequence number in a word of NVRAM. This is
//! the number up to which every command counts as complete. An entry that is recorded again is recorded as a
//! single entry.

use hashbrown::{HashMap, HashSet};
use rustc_hash::FxBuildHasher;

use super::entry::{EntryLayout, RemapCommand, ReverseMapEntry};
use crate::address::Lpn;
use crate::error::Result;
use crate::store::FlashPageStore;

/// State of the atomic remap commands in a reverse map: which of them count as complete, and where the newest one
/// begins.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RemapCommandState {
    /// Layout of the reverse-map entries, which tells whether entries name an atomic remap command.
    pub(super) entry_layout: EntryLayout,
    /// Index of the NVRAM word that stores `commands_complete_until_sequence`.
    commands_complete_until_word_index: usize,
    /// Sequence number up to which (inclusive) all atomic remap commands count as complete.
    commands_complete_until_sequence: u64,
    /// Sequence number of the first entry of the newest recorded atomic command; it identifies the command.
    pub(super) newest_command_sequence: u64,
}

impl RemapCommandState {
    /// Creates the state for a reverse map without any command yet. The NVRAM word with index
    /// `commands_complete_until_word_index` stores the sequence number up to which all commands count as complete.
    pub(super) fn new(entry_layout: EntryLayout, commands_complete_until_word_index: usize) -> Self {
        Self { entry_layout, commands_complete_until_word_index, ..Self::default() }
    }

    /// Stores the current sequence number in NVRAM, as the number up to which all atomic remap commands count as
    /// complete. Must be called before reverse-map entries are dropped, so that a command with dropped entries is not
    /// taken for incomplete.
    pub(super) fn declare_commands_complete(&mut self, io: &mut FlashPageStore) -> Result<()> {
        if self.newest_command_sequence <= self.commands_complete_until_sequence {
            return Ok(());
        }
        let number = io.last_sequence();
        io.store_nvram_word(self.commands_complete_until_word_index, number)?;
        self.commands_complete_until_sequence = number;
        Ok(())
    }

    /// Restores the state of atomic commands after a power loss from `recorded`, the intact reverse-map entries with
    /// their commands. Returns the numbers of the commands that are incomplete.
    pub(super) fn recover(
        &mut self,
        io: &mut FlashPageStore,
        recorded: &[(ReverseMapEntry, Option<RemapCommand>)],
    ) -> HashSet<u64, FxBuildHasher> {
        self.newest_command_sequence = 0;
        if self.entry_layout == EntryLayout::WithoutRemapCommand {
            return HashSet::default();
        }
        self.commands_complete_until_sequence = io.nvram()[self.commands_complete_until_word_index];
        io.continue_sequence_after(self.commands_complete_until_sequence);
        let unsure = |&&(entry, command): &&(ReverseMapEntry, Option<RemapCommand>)| {
            command.is_some_and(|command| {
                command.first_entry_sequence(&entry) > self.commands_complete_until_sequence
            })
        };
        let unsure: Vec<_> = recorded.iter().filter(unsure).copied().collect();
        let torn = incomplete_commands(&unsure);
        let numbers =
            unsure.iter().filter_map(|(entry, command)| Some(command.as_ref()?.first_entry_sequence(entry)));
        self.newest_command_sequence = numbers.filter(|number| !torn.contains(number)).max().unwrap_or(0);
        torn
    }
}

/// Returns the numbers of the incomplete atomic commands: those of which an entry is missing in `recorded`, the intact
/// reverse-map entries with their commands.
pub(super) fn incomplete_commands(
    recorded: &[(ReverseMapEntry, Option<RemapCommand>)],
) -> HashSet<u64, FxBuildHasher> {
    let mut found: HashMap<u64, (RemapCommand, HashSet<Lpn, FxBuildHasher>), FxBuildHasher> =
        HashMap::default();
    for &(entry, command) in recorded {
        let Some(command) = command else { continue };
        let (_, lpns) =
            found.entry(command.first_entry_sequence(&entry)).or_insert((command, HashSet::default()));
        lpns.insert(entry.lpn);
    }
    let is_torn = |(number, (command, lpns)): (u64, (RemapCommand, HashSet<Lpn, _>))| {
        (lpns.len() < command.target_pages as usize).then_some(number)
    };
    found.into_iter().filter_map(is_torn).collect()
}
