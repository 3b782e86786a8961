//! The mechanisms of an ablation, and their subsets. A subset is a number with one bit per mechanism, so that counting
//! up gives all of them.

use wearwell_config::{ConfigError, ContentMechanismName, refuse_value_listed_twice};

/// The mechanisms of an ablation: different content mechanisms, at least one, in the order of
/// [`ContentMechanismName::all_names`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AblatedMechanisms(Vec<ContentMechanismName>);

impl AblatedMechanisms {
    /// Parses names of content mechanisms; each text is one name, or several with plus signs between them.
    ///
    /// # Errors
    /// An unknown name, no name at all, a name that occurs twice, or more names than there are mechanisms.
    pub fn parse_names(names: &[String]) -> Result<Self, ConfigError> {
        let refuse = |sentence: String| Err(ConfigError::InvalidValue(sentence));
        let names: Vec<&str> = names.iter().flat_map(|name| name.split('+')).map(str::trim).collect();
        if matches!(names[..], [] | ["" | "none"]) {
            return refuse(
                "--parts names no mechanism: name at least one content mechanism, such as dedup+compress"
                    .into(),
            );
        }
        let most = ContentMechanismName::all_names().count();
        if names.len() > most {
            return refuse(format!(
                "--parts names {} mechanisms, but there are only {most}: name each at most once",
                names.len()
            ));
        }
        refuse_value_listed_twice("--parts", &names)?;
        let mut found = Vec::new();
        for name in names {
            let Some(known) = ContentMechanismName::from_name(name) else {
                let known = ContentMechanismName::all_names().map(ContentMechanismName::name);
                return Err(ConfigError::unknown_name("content mechanism", name, known));
            };
            found.push(known);
        }
        found.sort_unstable();
        Ok(Self(found))
    }

    /// Returns the mechanisms of an ablation, in the order of [`ContentMechanismName::all_names`].
    pub fn names(&self) -> &[ContentMechanismName] {
        &self.0
    }

    /// Returns all subsets of the mechanisms, from the empty one to the whole; each subset comes after those that it
    /// contains.
    pub fn subsets(&self) -> impl Iterator<Item = MechanismSubset> + use<> {
        (0..1 << self.0.len()).map(MechanismSubset)
    }

    /// Returns the subset of all mechanisms.
    pub fn full_subset(&self) -> MechanismSubset {
        MechanismSubset((1 << self.0.len()) - 1)
    }

    /// Returns the mechanisms that a subset contains.
    pub fn mechanisms_of(&self, subset: MechanismSubset) -> Vec<ContentMechanismName> {
        let named = self.0.iter().enumerate().filter(|&(at, _)| subset.contains_mechanism(at));
        named.map(|(_, &name)| name).collect()
    }

    /// Returns the name of a subset: its mechanisms with plus signs between them; `none` if it is empty.
    pub fn subset_name(&self, subset: MechanismSubset) -> String {
        joined_mechanism_names(&self.mechanisms_of(subset))
    }

    /// Returns the setting that gives a design the mechanisms of a subset. Deduplication serves remap commands too, so
    /// a subset with both `dedup` and `remap` has the setting of `dedup` alone.
    pub fn subset_setting(&self, subset: MechanismSubset) -> String {
        let mut members = self.mechanisms_of(subset);
        if members.contains(&ContentMechanismName::DEDUP) {
            members.retain(|&name| name != ContentMechanismName::Remap);
        }
        format!("parts.content={}", joined_mechanism_names(&members))
    }
}

/// Joins names of mechanisms with plus signs; `none` if there are no names.
pub(super) fn joined_mechanism_names(members: &[ContentMechanismName]) -> String {
    if members.is_empty() {
        return "none".to_owned();
    }
    members.iter().map(|name| name.name()).collect::<Vec<_>>().join("+")
}

/// A subset of the mechanisms of an ablation: bit `k` is the mechanism with number `k`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MechanismSubset(usize);

impl MechanismSubset {
    /// Whether the subset contains the mechanism with number `at`.
    fn contains_mechanism(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }
}
