//! Tests that the formulas for rows (reported results) of the papers give figures that were computed independently, to
//! their printed digits.

use wearwell_papers::Paper;
use wearwell_papers::closed_forms::metadata::recovery_row_values_from_formula;
use wearwell_papers::closed_forms::{
    flash_pages_per_packed_delta, row_values_from_formula, write_share_left_by_chunk_compression,
};
use wearwell_papers::target::NeededInput;
use wearwell_papers::verdict::NamedValue;

/// Returns the values that a formula gives for the row `id` (a reported result). This is the closed form of the row or,
/// for rows about recovery, the formula whose values are shown next to measured ones. Checks that all values are finite
/// numbers with different names.
fn formula_values(id: &str) -> Option<Vec<NamedValue>> {
    let (of_row, of_recovery) = (row_values_from_formula(id), recovery_row_values_from_formula(id));
    assert!(of_row.is_none() || of_recovery.is_none(), "{id} has two formulas");
    let values = of_row.or(of_recovery)?;
    assert!(!values.is_empty(), "{id} has no value");
    let names: std::collections::BTreeSet<&str> = values.iter().map(|value| value.of.as_str()).collect();
    assert_eq!(names.len(), values.len(), "{id} has values of one name: {names:?}");
    assert!(values.iter().all(|value| value.value.is_finite()), "{id}: {values:?}");
    Some(values)
}

/// Returns the values that a formula gives for the row `id` (a reported result), rounded to `digits` decimal places as
/// the paper prints them.
fn rounded_formula_values(id: &str, digits: usize) -> Vec<String> {
    let values = formula_values(id).unwrap_or_else(|| panic!("{id} is a closed form"));
    values.iter().map(|value| format!("{:.digits$}", value.value)).collect()
}

/// Returns the value with the name `of` that a formula gives for the row `id` (a reported result), rounded to `digits`
/// decimal places as the paper prints it.
fn rounded_formula_value(id: &str, of: &str, digits: usize) -> String {
    let values = formula_values(id).unwrap_or_else(|| panic!("{id} is a closed form"));
    let value = values.iter().find(|value| value.of == of).unwrap_or_else(|| panic!("{id} has no {of}"));
    format!("{:.digits$}", value.value)
}

#[test]
fn closed_forms_of_the_recyclable_ssd_paper_give_its_printed_figures() {
    assert_eq!(rounded_formula_values("LX-05", 1), ["72.5", "90.2", "83.6"]);
    assert_eq!(rounded_formula_values("LX-06", 2), ["24.12", "42.24", "15.52"]);
    assert_eq!(rounded_formula_values("LX-08", 1), ["11.6", "17.5", "16.1"]);
    assert_eq!(rounded_formula_values("LX-16", 1), ["1.5", "3.0", "6.0"]);
    assert_eq!(rounded_formula_values("LX-35", 0), ["32"]);
}

#[test]
fn closed_forms_of_the_delta_ftl_paper_give_its_printed_figures() {
    assert_eq!(rounded_formula_values("DF-01", 2), ["89.51", "43.96", "29.13"]);
    assert_eq!(rounded_formula_values("DF-02", 2), ["22.16", "10.88", "7.21"]);
    // 934 MHz is bound by the bus.
    assert_eq!(rounded_formula_values("DF-03", 4), ["0.4476", "0.2198", "0.2000"]);
    assert_eq!(rounded_formula_values("DF-04", 3), ["0.552", "0.780", "0.800"]);
    assert_eq!(rounded_formula_values("DF-05", 3), ["8.000"]);
    assert_eq!(rounded_formula_values("DF-06", 2), ["0.75", "3.00", "0.25"]);
    assert_eq!(rounded_formula_values("DF-07", 0), ["1", "1", "0"]);
    let foreground = ["0.900", "0.750", "0.600", "0.870", "0.675", "0.480", "0.840", "0.600", "0.360"];
    assert_eq!(rounded_formula_values("DF-19", 3), foreground);
    assert_eq!(rounded_formula_values("DF-33", 2), ["44.80", "4.48"]);
}

#[test]
fn delta_packing_loss_equals_a_direct_count() {
    // From a separate simulation with another generator.
    for (ratio, expected) in [(0.50, 0.708), (0.35, 0.434), (0.20, 0.226)] {
        let packed = flash_pages_per_packed_delta(ratio);
        assert!((packed - expected).abs() < 0.002, "at {ratio}: {packed}, not {expected}");
    }
    // At Rc = 0.50 the packed share is above what 304 MHz allows, though the ideal one is not.
    let bound: f64 = rounded_formula_value("DF-04", "304 MHz", 3).parse().unwrap();
    assert!(flash_pages_per_packed_delta(0.50) > bound && bound > 0.50);
    assert_eq!(rounded_formula_values("DF-31", 0)[..3], ["1", "1", "1"]);
}

#[test]
fn gc_frequency_with_deltas_follows_the_identity_of_the_delta_ftl_paper() {
    // 1 - Pc + Pc Rc over 1 - Pc is 1 + Pc Rc / (1 - Pc).
    for (values, share) in row_values_from_formula("DF-32").unwrap().chunks(3).zip([0.50, 0.35, 0.20]) {
        for (value, delta_share) in values.iter().zip([0.2, 0.5, 0.8]) {
            let identity = 1.0 + delta_share * share / (1.0 - delta_share);
            assert!((value.value - identity).abs() < 1e-12, "{}: {} and {identity}", value.of, value.value);
        }
    }
    assert_eq!(rounded_formula_values("DF-30", 1), ["10.7"]);
}

#[test]
fn closed_forms_of_the_remap_ssd_paper_give_its_printed_figures() {
    assert_eq!(rounded_formula_values("RM-01", 3), ["0.098"]);
    assert_eq!(rounded_formula_values("RM-02", 1), ["614.4"]);
    assert_eq!(rounded_formula_values("RM-03", 3), ["2.400"]);
    assert_eq!(rounded_formula_values("RM-04", 0), ["33", "524", "32", "256"]);
    assert_eq!(rounded_formula_values("RM-05", 2), ["4.00", "4.06"]);
    assert_eq!(rounded_formula_values("RM-06", 0), ["256", "252"]);
    assert_eq!(rounded_formula_value("RM-07", "1 KiB", 4), "1.5625");
    assert_eq!(rounded_formula_value("RM-07", "256 B", 2), "6.25");
    assert_eq!(rounded_formula_value("RM-07", "8 KiB", 3), "0.195");
    assert_eq!(rounded_formula_values("RM-08", 2), ["1.95"]);
    assert_eq!(rounded_formula_values("RM-09", 3), ["5.000"]);
    assert_eq!(rounded_formula_values("RM-10", 3), ["640.000", "160.000"]);
    assert_eq!(rounded_formula_values("RM-11", 3), ["128.000"]);
    assert_eq!(rounded_formula_values("RM-12", 0), ["128"]);
    assert_eq!(rounded_formula_values("RM-14", 0), ["15"]);
    assert_eq!(rounded_formula_values("RM-30", 3), ["0.323", "0.595"]);
    assert_eq!(rounded_formula_values("RM-31", 3), ["0.237", "0.524"]);
    assert_eq!(rounded_formula_values("RM-44", 0), ["576", "16384"]);
    assert_eq!(rounded_formula_values("RM-45", 0), ["576", "27648", "66"]);
}

#[test]
fn closed_forms_of_the_integrated_lifetime_paper_give_its_printed_figures() {
    // One thousandth above a step: at exactly 0.25 three pages are left.
    assert_eq!(rounded_formula_value("IL-09", "", 2), "0.25");
    assert_eq!(rounded_formula_value("IL-09", "2x", 2), "0.50");
    assert_eq!(rounded_formula_value("IL-09", "cost", 3), "0.132");
    assert_eq!(rounded_formula_value("IL-09", "2x cost", 3), "0.264");
    assert_eq!(rounded_formula_values("IL-10", 2), ["0.25"]);
    assert_eq!(rounded_formula_value("IL-11", "break-even, %", 2), "1.45");
    assert_eq!(rounded_formula_values("IL-11", 0)[..2], ["1", "1"]);
    assert_eq!(rounded_formula_value("IL-12", "compression", 3), "3.840");
    assert_eq!(rounded_formula_value("IL-12", "hash", 4), "0.4214");
    assert_eq!(rounded_formula_value("IL-12", "program", 2), "29.10");
    assert_eq!(rounded_formula_value("IL-13", "MiB per epoch", 2), "374.06");
    assert_eq!(rounded_formula_value("IL-13", "MB/s", 3), "1.307");
    assert_eq!(rounded_formula_value("IL-13", "epochs", 0), "525600");
    assert_eq!(rounded_formula_values("IL-14", 3), ["0.961", "1.720", "2.150"]);
}

#[test]
fn closed_forms_of_the_geckoftl_paper_give_its_printed_figures() {
    let curve = |id: &str, what: &str, digits: usize| -> Vec<String> {
        let values = row_values_from_formula(id).unwrap_or_else(|| panic!("{id} is a closed form"));
        let of_curve = values.iter().filter(|value| value.of.ends_with(what));
        of_curve.map(|value| format!("{:.digits$}", value.value)).collect()
    };
    assert_eq!(rounded_formula_values("GK-01", 2), ["4.09"]);
    assert_eq!(rounded_formula_value("GK-02", "", 1), "108.4");
    let lazy_ram = ["2.04", "4.09", "8.18", "16.35", "32.70", "65.40", "130.80", "261.60"];
    assert_eq!(curve("GK-03", "RAM MiB", 2), lazy_ram);
    let lazy_recovery = ["14.5", "28.7", "57.1", "70.6", "83.2", "108.4", "158.8", "259.5"];
    assert_eq!(curve("GK-03", "recovery s", 1), lazy_recovery);
    assert_eq!(rounded_formula_values("GK-03", 0)[..2], ["1", "0"]);
    let gecko_ram = ["0.35", "0.66", "1.27", "2.49", "4.92", "9.78", "19.50", "38.92"];
    assert_eq!(curve("GK-04", "RAM MiB", 2), gecko_ram);
    let gecko_recovery = ["3.8", "4.4", "5.5", "7.7", "12.2", "21.2", "39.1", "74.9"];
    assert_eq!(curve("GK-04", "recovery s", 1), gecko_recovery);
    assert_eq!(rounded_formula_values("GK-05", 3), ["1.400"]);
    assert_eq!(rounded_formula_values("GK-06", 3), ["1.400"]);
    assert_eq!(rounded_formula_values("GK-07", 1), ["64.0"]);
    assert_eq!(rounded_formula_values("GK-08", 1), ["45.7"]);
    assert_eq!(rounded_formula_values("GK-09", 1), ["97.9", "92.2", "87.2"]);
    assert_eq!(rounded_formula_values("GK-10", 1), ["26.8"]);
    assert_eq!(rounded_formula_values("GK-11", 2), ["6.73"]);
    assert_eq!(rounded_formula_values("GK-12", 1), ["36.7"]);
    assert_eq!(rounded_formula_values("GK-13", 3), ["3.125"]);
    assert_eq!(rounded_formula_values("GK-14", 0), ["524288"]);
    assert_eq!(rounded_formula_values("GK-15", 0), ["4"]);
    assert_eq!(rounded_formula_values("GK-17", 0), ["64"]);
    assert_eq!(rounded_formula_values("GK-20", 4), ["1.1000", "1.1015"]);
    assert_eq!(rounded_formula_values("GK-28", 0), ["88", "190", "241"]);
    assert_eq!(rounded_formula_values("GK-30", 1), ["69.4", "44.0", "13.8", "12.1"]);
    assert_eq!(row_values_from_formula("GK-30"), row_values_from_formula("GK-31"));
    assert_eq!(row_values_from_formula("GK-30"), row_values_from_formula("GK-33"));
    assert_eq!(rounded_formula_value("GK-32", "ratio", 2), "1.14");
    assert_eq!(rounded_formula_value("GK-32", "GeckoFTL, MiB", 1), "13.8");
    assert_eq!(rounded_formula_values("GK-34", 0), ["1", "1"]);
    assert_eq!(
        rounded_formula_values("GK-35", 2),
        ["12.58", "1.10", "0.12", "0.10", "4.10", "3.15", "21.15"]
    );
    assert_eq!(rounded_formula_values("GK-36", 1)[..2], ["108.4", "15.4"]);
    assert_eq!(rounded_formula_values("GK-36", 1)[3..], ["165.0", "21.2"]);
    assert_eq!(rounded_formula_values("GK-37", 1), ["1.0", "12.6", "94.5", "0.3", "57.7", "165.0"]);
    assert_eq!(rounded_formula_value("GK-38", "share, %", 1), "59.5");
    assert_eq!(rounded_formula_values("GK-39", 1), ["80.5", "58.0"]);
    assert_eq!(rounded_formula_values("GK-40", 1), ["97.3", "85.0"]);
    assert_eq!(rounded_formula_values("GK-47", 2), ["69.40", "68.07", "69.78", "8.00"]);
    assert_eq!(rounded_formula_values("GK-50", 4), ["0.0684", "0.0076"]);
    assert_eq!(rounded_formula_values("GK-53", 4), ["40960.0000", "0.3125", "68.0000"]);
    assert_eq!(rounded_formula_values("GK-54", 0), ["8192"]);
    assert_eq!(rounded_formula_values("GK-57", 1), ["7.8"]);
    assert_eq!(rounded_formula_values("GK-58", 0), ["32"]);
    assert_eq!(rounded_formula_values("GK-60", 1), ["68.2"]);
}

#[test]
fn read_slowdown_follows_the_geckoftl_papers_expression() {
    use wearwell_papers::closed_forms::metadata::host_read_rate_relative_to_flash;
    // Half of the time for the map: one read of it per host read, as many host reads as writes, a tenth internally.
    assert!((host_read_rate_relative_to_flash(1.0, 1.0, 0.1) - 0.5).abs() < 1e-12);
    assert!((host_read_rate_relative_to_flash(0.5, 2.0, 0.9) - 0.1).abs() < 1e-12);
    let (in_ram, on_flash) = (
        rounded_formula_value("GK-61", "validity in RAM", 4),
        rounded_formula_value("GK-61", "bitmap on flash", 4),
    );
    assert!(in_ram > on_flash, "{in_ram} with validity in RAM, {on_flash} on flash");
}

/// Compares the RAM formulas of the GeckoFTL paper with what the parts of a small device report. Each known difference
/// is named where it is compared.
#[test]
fn ram_formulas_of_the_geckoftl_paper_equal_what_the_engine_reports() {
    use wearwell::design::{self, Parts};
    use wearwell::nand::{RetainedPageFields, SimNand, preset};
    use wearwell_config::Config;
    use wearwell_papers::closed_forms::metadata::ModelledDeviceSize;

    let mut geometry = preset::preset_by_name("gk-2t").unwrap().geometry;
    geometry.blocks_per_plane = 4096;
    let logical_pages = (geometry.pages() as f64 * 0.7) as u32;
    let gc = Config::from_text_and_settings(None, &[]).unwrap().resolve_device(1 << 20).unwrap().gc_options;
    let tree = design::UFtlOptions { cache_entries: 512, cached_directory_nodes: 1 };
    let gecko = wearwell::validity::GeckoOptions::with_block_parts_of_key_size(&geometry);
    let gecko_options = design::GeckoFtlOptions { cache_entries: 512, gecko };
    let report = |parts: &Parts| -> std::collections::BTreeMap<&'static str, u64> {
        let nand = SimNand::new(geometry.clone(), RetainedPageFields::default());
        wearwell::Ftl::new(nand, logical_pages, parts).unwrap().ram_bytes_by_structure().into_iter().collect()
    };
    let scale =
        ModelledDeviceSize { blocks: 4096.0, pages_per_block: 128.0, utilisation: 0.7, cache_entries: 512.0 };
    let is = |reported: u64, formula: f64| {
        assert!((reported as f64 - formula).abs() < 1e-6, "{reported}, {formula}");
    };

    let lazy = report(&design::lazyftl(gc, 512));
    is(lazy["cached mapping table"], scale.mapping_cache_bytes());
    is(lazy["global mapping directory"], scale.translation_directory_bytes());
    is(lazy["page validity bitmap"], scale.validity_bitmap_bytes());
    // State and kind of a block take a third byte.
    is(lazy["block table"], 1.5 * scale.valid_page_counters_bytes());
    let micro = report(&design::uftl(gc, tree));
    is(micro["validity bitmap directory"], scale.validity_bitmap_bytes() / 4096.0 * 4.0);
    // The root, and the one inner node that there is.
    is(micro["root and cached nodes of the tree"], 2.0 * 4096.0);
    let index = report(&design::ibftl(gc, tree));
    is(index["validity chain heads"] + index["validity erase stamps"], 8.0 * scale.blocks);
    let gecko = report(&design::geckoftl(gc, gecko_options));
    is(gecko["Gecko buffer"], 4096.0);
    // With parts of 32 pages keys take more room than the formula, which knows no parts, reckons; and the directory has
    // room for the pages of a merge in progress.
    assert!(gecko["Gecko run directories"] as f64 > scale.gecko_directory_bytes());
    assert!((gecko["Gecko run directories"] as f64) < 4.0 * scale.gecko_directory_bytes());
}

#[test]
fn compressed_chunks_take_whole_flash_pages() {
    let pages = |ratio: f64| (4.0 * write_share_left_by_chunk_compression(ratio)).round() as u32;
    assert_eq!([0.0, 0.2499, 0.25, 0.4999, 0.5, 0.7499, 0.75, 1.0].map(pages), [4, 4, 3, 3, 2, 2, 1, 0]);
}

#[test]
fn lifetime_scheme_decisions_equal_algorithm_1_of_the_integrated_lifetime_paper() {
    use wearwell_papers::closed_forms::lifetime_schemes_enabled_by_paper;
    // Free schemes run whatever the demand.
    assert_eq!(lifetime_schemes_enabled_by_paper((0.8, 0.81), (0.5, 0.63), 1.0, 10.0), [true, true, false]);
    // One that costs energy joins only when the epoch does not suffice, ...
    assert_eq!(lifetime_schemes_enabled_by_paper((1.0, 1.01), (0.9, 1.03), 0.9, 1.0), [false, false, false]);
    assert_eq!(lifetime_schemes_enabled_by_paper((1.0, 1.01), (0.9, 1.03), 1.05, 1.0), [false, true, false]);
    // ... and never if it costs more than it saves; then only throttling is left.
    assert_eq!(lifetime_schemes_enabled_by_paper((1.0, 1.01), (0.9, 1.2), 1.05, 1.0), [false, false, true]);
    assert_eq!(rounded_formula_values("IL-17", 1), ["100.0"]);
}

#[test]
fn every_reported_result_declared_as_closed_form_has_computed_values() {
    /// Text of this test file. It must contain the id of every row (reported result) whose values a formula computes.
    const SOURCE: &str = include_str!("closed_forms.rs");
    let mut found = 0;
    for paper in Paper::ALL {
        for target in paper.targets().rows.iter().filter(|row| row.class == NeededInput::Cf) {
            assert!(formula_values(&target.id).is_some(), "{} has no closed form", target.id);
            let asserted = format!("(\"{}\"", target.id);
            assert!(SOURCE.contains(&asserted), "{}: no test here compares its values", target.id);
            found += 1;
        }
    }
    assert!(found > 50, "{found} rows");
    assert_eq!(formula_values("LX-00"), None, "a row that does not exist has no formula");
}
