//! A folder of finished results, one file per result, so that a computation of hours can continue after an
//! interruption.
//!
//! The name of a file contains the digest of everything that the result depends on: code, input, design, every setting
//! with its effective value, and what else matters for this kind of result
//! ([`Plan::life_result_key`](crate::replay::Plan::life_result_key),
//! [`Plan::run_result_key`](crate::replay::Plan::run_result_key)). So no result in the folder can be out of date, and
//! several commands may share the folder. The price: any change of the engine's code means that all results are
//! computed anew.
//!
//! The file contains the digest too, as the first field `result_key`. A file that was copied or renamed to the name of
//! another result is so noticed, and that result is computed anew.

use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::atomic_file::write_file_atomically;
use crate::json::{FromJson, ToJson};
use crate::life::{LifeEndReason, LifeRecord};
use crate::record::RunRecord;

/// A result that can be stored in a folder of results ([`ResultFolder`]).
pub trait StorableResult: ToJson + FromJson {
    /// Kind of result as a word in the names of its files, such as `run`.
    const RESULT_KIND: &'static str;

    /// Whether the result is complete: a result of an interrupted computation is not stored.
    fn is_finished(&self) -> bool;
}

/// A record of lives is complete if it has exactly one life, and that life was not interrupted.
impl StorableResult for LifeRecord {
    const RESULT_KIND: &'static str = "life";

    fn is_finished(&self) -> bool {
        matches!(&self.lives[..], [life] if life.end != LifeEndReason::Interrupted)
    }
}

/// A run record is complete if the whole input was replayed.
impl StorableResult for RunRecord {
    const RESULT_KIND: &'static str = "run";

    fn is_finished(&self) -> bool {
        !self.partial
    }
}

/// Reads only the key from a stored result file: a digest that says of which inputs and settings the result is.
#[derive(Deserialize)]
struct StoredResultKey {
    /// Digest under which the result was stored.
    result_key: String,
}

/// A folder of finished results of one kind, one file per result.
#[derive(Clone, Debug)]
pub struct ResultFolder<T> {
    /// Path of the folder.
    folder: PathBuf,
    /// Marks the type of the results in the folder; holds no data.
    result_type: PhantomData<fn() -> T>,
}

impl<T: StorableResult> ResultFolder<T> {
    /// Opens `folder` as a folder of results, and creates it if it is missing.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn open(folder: &Path) -> std::io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        Ok(Self { folder: folder.to_owned(), result_type: PhantomData })
    }

    /// Returns the path of the file that holds the result of `key`.
    fn result_path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{}-{key}.json", T::RESULT_KIND))
    }

    /// Returns the stored result of `key`; `None` if the folder has no readable and finished result for this key, or if
    /// the file with the name of this key has the result of another one.
    pub fn get(&self, key: &str) -> Option<T> {
        let text = std::fs::read_to_string(self.result_path(key)).ok()?;
        let stored: StoredResultKey = serde_json::from_str(&text).ok()?;
        if stored.result_key != key {
            return None;
        }
        T::from_json(&text).ok().filter(T::is_finished)
    }

    /// Stores a result if it is finished. A concurrent reader sees either the whole file or no file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn store_if_finished(&self, key: &str, result: &T) -> std::io::Result<()> {
        if !result.is_finished() {
            return Ok(());
        }
        let json = result.to_pretty_json();
        let fields = json.strip_prefix("{\n").expect("a result is an object with fields");
        let text = format!("{{\n  \"result_key\": \"{key}\",\n{fields}");
        write_file_atomically(&self.result_path(key), text)
    }
}
