//! Lives that have ended, kept in a folder: one file for each, so that a comparison that takes hours goes on where it was ended.
//!
//! A file is named by the digest of all that a life depends on: code, input, design, every setting with its effective value, and the
//! distribution of the blocks' limits. So nothing in the folder can be out of date, and several comparisons may share it. The
//! price: whatever changes the engine makes all lives anew.

use std::path::{Path, PathBuf};

use super::LifeRecord;

/// A folder of finished lives.
#[derive(Clone, Debug)]
pub struct KeptLives {
    folder: PathBuf,
}

impl KeptLives {
    /// The lives in `folder`, which is made if it is missing.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn at(folder: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("life-{key}.json"))
    }

    /// A record with the life of this key alone; `None` if there is none that can be read.
    pub fn get(&self, key: &str) -> Option<LifeRecord> {
        let text = std::fs::read_to_string(self.path(key)).ok()?;
        serde_json::from_str(&text).ok().filter(|record: &LifeRecord| record.lives.len() == 1)
    }

    /// Keeps a record of one life. A reader sees the whole file or none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn put(&self, key: &str, record: &LifeRecord) -> std::io::Result<()> {
        let (path, text) = (self.path(key), serde_json::to_string_pretty(record)?);
        let partial = path.with_extension("partial");
        std::fs::write(&partial, text)?;
        std::fs::rename(&partial, &path)
    }
}
