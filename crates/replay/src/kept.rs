//! Results that are finished, kept in a folder: one file for each, so that what takes hours goes on where it was ended.
//!
//! A file is named by the digest of all that the result depends on: code, input, design, every setting with its effective value, and
//! what else the kind of result knows ([`Plan::life_key`](crate::replay::Plan::life_key), [`Plan::run_key`](crate::replay::Plan::run_key)).
//! So nothing in the folder can be out of date, and several commands may share it. The price: whatever changes the engine makes
//! all results anew.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::life::{End, LifeRecord};
use crate::record::RunRecord;

/// A result that can be kept.
pub trait Keepable: Serialize + DeserializeOwned {
    /// What it is, in the names of files.
    const KIND: &'static str;

    /// Whether it is what its key stands for, and went to its end.
    fn is_finished(&self) -> bool;
}

/// A record with one life that has ended.
impl Keepable for LifeRecord {
    const KIND: &'static str = "life";

    fn is_finished(&self) -> bool {
        matches!(&self.lives[..], [life] if life.end != End::Interrupted)
    }
}

/// A run that replayed its whole input.
impl Keepable for RunRecord {
    const KIND: &'static str = "run";

    fn is_finished(&self) -> bool {
        !self.partial
    }
}

/// A folder of finished results of a kind.
#[derive(Clone, Debug)]
pub struct Kept<T> {
    folder: PathBuf,
    kind: PhantomData<fn() -> T>,
}

impl<T: Keepable> Kept<T> {
    /// The results in `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn at(folder: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), kind: PhantomData })
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{}-{key}.json", T::KIND))
    }

    /// The result of this key; `None` if there is none that can be read.
    pub fn get(&self, key: &str) -> Option<T> {
        let text = std::fs::read_to_string(self.path(key)).ok()?;
        serde_json::from_str(&text).ok().filter(T::is_finished)
    }

    /// Keeps a result if it is finished. A reader sees the whole file or none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, key: &str, result: &T) -> std::io::Result<()> {
        if !result.is_finished() {
            return Ok(());
        }
        let (path, text) = (self.path(key), serde_json::to_string_pretty(result)?);
        let partial = path.with_extension("partial");
        std::fs::write(&partial, text)?;
        std::fs::rename(&partial, &path)
    }
}
