//! Mechanisms that are taken apart, and their subsets: a bit for each, so that a subset is a number and all of them count up.

use wearwell_config::{ConfigError, ContentName};

/// Different content mechanisms, at least one, in the order of [`ContentName::ALL`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mechanisms(Vec<ContentName>);

impl Mechanisms {
    /// Those that are named, each by itself or several with plus signs between them.
    ///
    /// # Errors
    /// An unknown name, none at all, one twice, or more than there are.
    pub fn named(names: &[String]) -> Result<Self, ConfigError> {
        let refuse = |sentence: String| Err(ConfigError::Value(sentence));
        let names: Vec<&str> = names.iter().flat_map(|name| name.split('+')).map(str::trim).collect();
        if matches!(names[..], [] | ["" | "none"]) {
            return refuse("--parts names no mechanism: there is nothing to take apart".into());
        }
        if names.len() > ContentName::ALL.len() {
            let most = ContentName::ALL.len();
            return refuse(format!("--parts names {} mechanisms, and there are {most}", names.len()));
        }
        let mut found = Vec::new();
        for name in names {
            let Some(known) = ContentName::named(name) else {
                let known = ContentName::ALL.into_iter().map(ContentName::name);
                return Err(ConfigError::unknown("content mechanism", name, known));
            };
            if found.contains(&known) {
                return refuse(format!("--parts names {name} twice: leave one out"));
            }
            found.push(known);
        }
        found.sort_unstable();
        Ok(Self(found))
    }

    /// Their names, in order.
    pub fn names(&self) -> &[ContentName] {
        &self.0
    }

    /// All subsets: from none to the whole, and each behind what it contains.
    pub fn subsets(&self) -> impl Iterator<Item = Subset> + use<> {
        (0..1 << self.0.len()).map(Subset)
    }

    /// All of them.
    pub fn whole(&self) -> Subset {
        Subset((1 << self.0.len()) - 1)
    }

    /// The members of a subset.
    pub fn members(&self, subset: Subset) -> Vec<ContentName> {
        let named = self.0.iter().enumerate().filter(|&(at, _)| subset.has(at));
        named.map(|(_, &name)| name).collect()
    }

    /// The names of a subset's members with plus signs between them; `none` without any.
    pub fn name(&self, subset: Subset) -> String {
        joined(&self.members(subset))
    }

    /// The setting that puts the members of a subset into a design. Deduplication serves remap commands too, so that it makes the
    /// same device with `remap` and without.
    pub fn setting(&self, subset: Subset) -> String {
        let mut members = self.members(subset);
        if members.contains(&ContentName::Dedup) {
            members.retain(|&name| name != ContentName::Remap);
        }
        format!("parts.content={}", joined(&members))
    }
}

/// Names with plus signs between them; `none` without any.
pub(super) fn joined(members: &[ContentName]) -> String {
    if members.is_empty() {
        return "none".to_owned();
    }
    members.iter().map(|name| name.name()).collect::<Vec<_>>().join("+")
}

/// Some of the mechanisms: bit `k` is the one with number `k`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Subset(usize);

impl Subset {
    /// Whether the mechanism with this number is a member.
    fn has(self, at: usize) -> bool {
        self.0 >> at & 1 == 1
    }
}
