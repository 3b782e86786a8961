//! Files of result tables for further analysis: CSV, and Parquet, which also stores the types of the columns.

use std::io::{self, IsTerminal as _};
use std::path::Path;

use wearwell_replay::data_table::DataTable;

use crate::Failure;
use crate::output::{OutputDestination, OverwriteRule};
use crate::parquet_file::parquet_bytes;

/// An output to which a table of results is written, and the file format of the table: CSV or Parquet.
pub(crate) struct TableOutput {
    /// File or standard output to which the table is written.
    output: OutputDestination,
    /// Format of the table: CSV or Parquet.
    file_format: TableFileFormat,
}

/// Format of a file to which a table of results is written.
enum TableFileFormat {
    Csv,
    Parquet,
}

impl TableOutput {
    /// Returns an output that writes a table as CSV to `path`, after checking that `path` can be written.
    ///
    /// # Errors
    /// As [`OutputDestination::for_path`].
    pub(crate) fn csv(path: &Path, overwrite: &OverwriteRule<'_>) -> Result<Self, Failure> {
        Ok(Self { output: OutputDestination::for_path(path, overwrite)?, file_format: TableFileFormat::Csv })
    }

    /// Returns an output that writes a table as a Parquet file (binary) to `path`, after checking that `path` can be
    /// written.
    ///
    /// # Errors
    /// As [`OutputDestination::for_path`], or `path` is a standard output that is a terminal.
    pub(crate) fn parquet(path: &Path, overwrite: &OverwriteRule<'_>) -> Result<Self, Failure> {
        let output = OutputDestination::for_path(path, overwrite)?;
        if output.is_standard_output() && io::stdout().is_terminal() {
            return Err(Failure::of_usage(
                "standard output is a terminal, which cannot show a Parquet file: name a file after --parquet, or pipe \
                 the output to a program",
            ));
        }
        Ok(Self { output, file_format: TableFileFormat::Parquet })
    }

    /// Returns an output that writes a table to `path`, as Parquet if its name ends in `.parquet`, else as CSV, after
    /// checking that `path` can be written.
    ///
    /// # Errors
    /// As [`OutputDestination::for_path`].
    pub(crate) fn by_file_ending(path: &Path, overwrite: &OverwriteRule<'_>) -> Result<Self, Failure> {
        let is_parquet = path.extension().is_some_and(|ending| ending == "parquet");
        if is_parquet { Self::parquet(path, overwrite) } else { Self::csv(path, overwrite) }
    }

    /// Returns whether the output is standard output.
    pub(crate) fn is_standard_output(&self) -> bool {
        self.output.is_standard_output()
    }

    /// Writes the table to the output.
    ///
    /// # Errors
    /// The error of the operating system, with the path, or a number that Parquet cannot hold.
    pub(crate) fn write(&self, table: &DataTable) -> Result<(), Failure> {
        match self.file_format {
            TableFileFormat::Csv => self.output.write(&table.to_csv()),
            TableFileFormat::Parquet => {
                let bytes = parquet_bytes(table).map_err(|error| Failure::of_run(&error))?;
                self.output.write_bytes(&bytes)
            }
        }
    }
}
