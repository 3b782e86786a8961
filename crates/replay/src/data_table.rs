//! Results as a table for programs: columns of one type each, and a row per result.
//!
//! Every format with rows and columns (CSV here, Parquet in the command) is printed from such a table. So formats
//! cannot differ in their columns or values, and a format that has types need not guess them from text.

/// Type of the values in a column of a results table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellKind {
    /// Texts, such as names, paths and sentences.
    Text,
    /// Whole numbers, such as counts, sizes in bytes and seeds.
    Whole,
    /// Real numbers, such as measured figures, shares and times.
    Real,
    /// Truth values (yes or no).
    Flag,
}

/// A cell of a results table: the value of one column in one row.
#[derive(Clone, PartialEq, Debug)]
pub enum Cell {
    /// The row has no value in this column.
    Empty,
    /// A text that is not empty.
    Text(String),
    /// A whole number.
    Whole(u64),
    /// A real number.
    Real(f64),
    /// A truth value (yes or no).
    Flag(bool),
}

impl Cell {
    /// Returns the kind of the value; `None` if the cell is empty.
    pub fn kind(&self) -> Option<CellKind> {
        match self {
            Self::Empty => None,
            Self::Text(_) => Some(CellKind::Text),
            Self::Whole(_) => Some(CellKind::Whole),
            Self::Real(_) => Some(CellKind::Real),
            Self::Flag(_) => Some(CellKind::Flag),
        }
    }

    /// Returns the cell's value as a CSV field: texts in quotes if they require them, numbers with all their digits.
    fn to_csv(&self) -> String {
        match self {
            Self::Empty => String::new(),
            Self::Text(text) => csv_field(text),
            Self::Whole(value) => value.to_string(),
            Self::Real(value) => value.to_string(),
            Self::Flag(value) => value.to_string(),
        }
    }
}

/// Returns a text as a CSV field: in quotes if it contains a comma, a quote or a line break.
fn csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

/// An empty text becomes an empty cell, because CSV cannot tell them apart.
impl From<String> for Cell {
    fn from(text: String) -> Self {
        if text.is_empty() { Self::Empty } else { Self::Text(text) }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<u32> for Cell {
    fn from(value: u32) -> Self {
        Self::Whole(value.into())
    }
}

impl From<u64> for Cell {
    fn from(value: u64) -> Self {
        Self::Whole(value)
    }
}

impl From<f64> for Cell {
    fn from(value: f64) -> Self {
        Self::Real(value)
    }
}

impl From<bool> for Cell {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Empty, Into::into)
    }
}

/// The title of a column, and what its cells contain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataColumn {
    /// Title of the column, with the unit of its values last.
    pub title: String,
    /// Kind of all values in the column.
    pub kind: CellKind,
}

impl DataColumn {
    /// Creates a column with this title, for values of this kind.
    pub fn new(title: &str, kind: CellKind) -> Self {
        Self { title: title.to_owned(), kind }
    }
}

/// Results in rows, with the same typed columns in every row.
#[derive(Clone, PartialEq, Debug)]
pub struct DataTable {
    /// Titles and kinds of the columns, from left to right.
    columns: Vec<DataColumn>,
    /// Cells of each row, one per column.
    rows: Vec<Vec<Cell>>,
}

impl DataTable {
    /// Creates a results table with these columns, without rows.
    pub fn new(columns: Vec<DataColumn>) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row at the end of a results table.
    ///
    /// # Panics
    /// The row has not one cell per column, or a cell has a value of another kind than its column.
    pub fn push(&mut self, row: Vec<Cell>) {
        assert_eq!(row.len(), self.columns.len(), "a row has a cell in every column");
        for (cell, DataColumn { title, kind }) in row.iter().zip(&self.columns) {
            assert!(
                cell.kind().is_none_or(|of_cell| of_cell == *kind),
                "{title} is a column of {kind:?}, not of {cell:?}"
            );
        }
        self.rows.push(row);
    }

    /// Returns the columns of the results table, from left to right.
    pub fn columns(&self) -> &[DataColumn] {
        &self.columns
    }

    /// Returns the rows of the results table, each with a cell per column.
    pub fn rows(&self) -> &[Vec<Cell>] {
        &self.rows
    }

    /// Returns the results table as CSV: a line of titles, then one line per row.
    pub fn to_csv(&self) -> String {
        let line = |fields: Vec<String>| fields.join(",") + "\n";
        let titles = line(self.columns.iter().map(|column| csv_field(&column.title)).collect());
        let rows = self.rows.iter().map(|row| line(row.iter().map(Cell::to_csv).collect()));
        titles + &rows.collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a small table with a column of each kind and an empty cell.
    fn example_table() -> DataTable {
        DataTable::new(vec![
            DataColumn::new("trace", CellKind::Text),
            DataColumn::new("erases", CellKind::Whole),
            DataColumn::new("years", CellKind::Real),
            DataColumn::new("steady", CellKind::Flag),
        ])
    }

    #[test]
    fn csv_of_a_data_table_quotes_texts_and_leaves_empty_cells_empty() {
        let mut table = example_table();
        table.push(vec!["a, \"b\"".into(), u64::MAX.into(), 0.1.into(), true.into()]);
        table.push(vec!["".into(), None::<u64>.into(), Some(3.0).into(), Cell::Empty]);
        assert_eq!(
            table.to_csv(),
            "trace,erases,years,steady\n\"a, \"\"b\"\"\",18446744073709551615,0.1,true\n,,3,\n"
        );
    }

    #[test]
    #[should_panic(expected = "erases is a column of Whole, not of Real(1.0)")]
    fn a_data_table_column_refuses_values_of_another_kind() {
        example_table().push(vec![Cell::Empty, 1.0.into(), Cell::Empty, Cell::Empty]);
    }

    #[test]
    #[should_panic(expected = "a cell in every column")]
    fn a_data_table_refuses_rows_without_a_cell_per_column() {
        example_table().push(vec!["a".into()]);
    }
}
