//! Ablations as a table of typed columns (for CSV and Parquet): one row for each subset of the content mechanisms, with
//! the columns of the table of runs. The row of a refused subset has empty figures. The gains of the mechanisms are
//! computed from these rows, and are written to JSON only.

use super::{Ablation, SubsetRun};
use crate::data_table::{Cell, CellKind, DataColumn, DataTable};
use crate::report::{data_table_cells_of_run, data_table_columns_of_runs};

/// Returns ablations as a table of typed columns, for CSV and Parquet. The columns are always the same, so that files
/// can be joined.
pub fn data_table(ablations: &[Ablation]) -> DataTable {
    let of_subset = ["subset", "refused"].map(|title| DataColumn::new(title, CellKind::Text));
    let mut table = DataTable::new(of_subset.into_iter().chain(data_table_columns_of_runs()).collect());
    for ablation in ablations {
        for row in ablation.subsets.iter().filter_map(|subset| subset_row(ablation, subset)) {
            table.push(row);
        }
    }
    table
}

/// Returns the row of a subset of the mechanisms; `None` if the subset was neither run nor refused.
fn subset_row(ablation: &Ablation, subset: &SubsetRun) -> Option<Vec<Cell>> {
    let of_run = match (&subset.run, &subset.refused) {
        (Some(run), _) => data_table_cells_of_run(run),
        (None, Some(_)) => data_table_columns_of_runs()
            .iter()
            .map(|column| cell_of_refused_subset(ablation, &column.title))
            .collect(),
        (None, None) => return None,
    };
    Some([vec![subset.name().into(), subset.refused.clone().into()], of_run].concat())
}

/// Returns the table cell in the column `title` for a subset of mechanisms that the engine refused: input, design and
/// version are known, and the cells of all other columns are empty.
fn cell_of_refused_subset(ablation: &Ablation, title: &str) -> Cell {
    match title {
        "trace" => ablation.input.clone().into(),
        "design" => ablation.design.clone().into(),
        "version" => env!("CARGO_PKG_VERSION").into(),
        _ => Cell::Empty,
    }
}
