//! Writes a table of results as a Parquet file, which pandas, polars, R and `DuckDB` read with the types of its
//! columns.
//!
//! Every column is optional: an empty cell is a null. Whole numbers are INT64, real numbers DOUBLE, texts UTF8, flags
//! BOOLEAN. All rows are one row group, not compressed, because tables of results are small. The low-level writer of
//! the crate `parquet` suffices for flat tables, so its Arrow interface is not compiled.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};
use wearwell_replay::data_table::{Cell, CellKind, DataColumn, DataTable};

/// Key, in the metadata of a Parquet file, under which Wearwell's version is stored.
const VERSION_KEY: &str = "wearwell.version";

/// Returns the table as the bytes of a Parquet file.
///
/// # Errors
/// A whole number of the table is greater than INT64 can hold.
pub fn parquet_bytes(table: &DataTable) -> Result<Vec<u8>> {
    let version = KeyValue::new(VERSION_KEY.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![version])).build();
    let mut bytes = Vec::new();
    let mut file = SerializedFileWriter::new(&mut bytes, parquet_schema_of(table)?, Arc::new(properties))?;
    if !table.rows().is_empty() {
        let mut group = file.next_row_group()?;
        for (number, column) in table.columns().iter().enumerate() {
            let mut writer = group.next_column()?.expect("the schema has every column");
            write_column(&mut writer, column, table.rows().iter().map(|row| &row[number]))?;
            writer.close()?;
        }
        group.close()?;
    }
    file.close()?;
    Ok(bytes)
}

/// Returns the Parquet schema of a table: one optional field per column.
fn parquet_schema_of(table: &DataTable) -> Result<TypePtr> {
    let columns = table.columns().iter().map(|column| parquet_type_of(column).map(Arc::new));
    let schema = Type::group_type_builder("wearwell").with_fields(columns.collect::<Result<_>>()?).build()?;
    Ok(Arc::new(schema))
}

/// Returns the Parquet type of a column of a table.
fn parquet_type_of(column: &DataColumn) -> Result<Type> {
    let (physical, logical) = match column.kind {
        CellKind::Text => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        CellKind::Whole => (PhysicalType::INT64, None),
        CellKind::Real => (PhysicalType::DOUBLE, None),
        CellKind::Flag => (PhysicalType::BOOLEAN, None),
    };
    Type::primitive_type_builder(&column.title, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL)
        .build()
}

/// Writes all cells of a table's column to the Parquet file. Every cell is empty or of the column's kind.
fn write_column<'a>(
    writer: &mut SerializedColumnWriter<'_>,
    column: &DataColumn,
    cells: impl Iterator<Item = &'a Cell>,
) -> Result<()> {
    match column.kind {
        CellKind::Text => write_values::<ByteArrayType>(writer, cells, |cell| match cell {
            Cell::Text(text) => Ok(Some(ByteArray::from(text.as_str()))),
            _ => Ok(None),
        }),
        CellKind::Whole => write_values::<Int64Type>(writer, cells, |cell| match cell {
            Cell::Whole(value) => to_int64(&column.title, *value).map(Some),
            _ => Ok(None),
        }),
        CellKind::Real => write_values::<DoubleType>(writer, cells, |cell| match cell {
            Cell::Real(value) => Ok(Some(*value)),
            _ => Ok(None),
        }),
        CellKind::Flag => write_values::<BoolType>(writer, cells, |cell| match cell {
            Cell::Flag(value) => Ok(Some(*value)),
            _ => Ok(None),
        }),
    }
}

/// Writes the values of a table's column to the Parquet file, and a definition level per row: 1 for a value, 0 for a
/// null.
fn write_values<'a, T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = &'a Cell>,
    value_of: impl Fn(&Cell) -> Result<Option<T::T>>,
) -> Result<()> {
    let values = cells.map(value_of).collect::<Result<Vec<Option<T::T>>>>()?;
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    let values: Vec<T::T> = values.into_iter().flatten().collect();
    writer.typed::<T>().write_batch(&values, Some(&levels), None)?;
    Ok(())
}

/// Converts a value of the column `title` to INT64; an error if the value is too large.
fn to_int64(title: &str, value: u64) -> Result<i64> {
    value.try_into().map_err(|_| {
        ParquetError::General(format!(
            "the column {title} has the value {value}, which is too large for the type INT64 of Parquet: write the \
             table as CSV instead"
        ))
    })
}
