//! Checks the layers of the crate: no module may use a module of a higher layer.
//!
//! The layers are in the order in which the crate can be read. Modules of the same layer may use each other. The engine
//! is one such layer, because content mechanisms, garbage collection and recovery are steps of one object.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Layers from the lowest to the highest. A name is a file or a folder of `src`; if two names fit, the longer one
/// counts.
const LAYERS: [&[&str]; 10] = [
    &["divide", "address", "data"],
    &["tables", "operation"],
    &["nand", "stats", "events"],
    &["error"],
    &["store"],
    &["mapping", "validity", "timing", "sharing/counts", "sharing/reverse_map"],
    &["check", "content", "scrub", "design", "ftl", "gc", "lifetime", "recovery", "sharing"],
    &["write_buffer"],
    &["device"],
    &["flash_view", "block_chart", "logical_page_form"],
];

/// Returns the layer of a module, given by its path in `src`, such as `sharing/reverse_map/ideal`.
fn layer(module: &str) -> Option<usize> {
    let names =
        LAYERS.iter().enumerate().flat_map(|(level, names)| names.iter().map(move |name| (level, name)));
    let fits = names.filter(|(_, name)| {
        module.strip_prefix(**name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    fits.max_by_key(|(_, name)| name.len()).map(|(level, _)| level)
}

/// Returns the text of every source file of the crate, by module path.
fn sources() -> BTreeMap<String, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let (mut found, mut folders) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root.join(&folder)).unwrap() {
            let name = folder.join(entry.unwrap().file_name());
            if root.join(&name).is_dir() {
                folders.push(name);
            } else if name != Path::new("lib.rs") {
                let module = name.with_extension("").to_str().unwrap().replace("/mod", "");
                found.insert(module, std::fs::read_to_string(root.join(&name)).unwrap());
            }
        }
    }
    found
}

/// Returns the modules that a source names by paths from the crate's root; its tests and comments are not searched.
fn named_modules(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut named = Vec::new();
    for line in lines {
        for rest in line.split("crate::").skip(1) {
            let path: String =
                rest.chars().take_while(|&c| c.is_alphanumeric() || c == '_' || c == ':').collect();
            named.push(path.trim_matches(':').replace("::", "/"));
        }
    }
    named
}

#[test]
fn no_module_of_the_core_uses_a_higher_layer() {
    let sources = sources();
    assert!(sources.len() > 100, "{} sources", sources.len());
    let mut arrows = 0;
    for (module, text) in &sources {
        let own = layer(module).unwrap_or_else(|| panic!("{module} has no place in the layers"));
        for named in named_modules(text) {
            // Items re-exported by the root of the crate, such as `crate::Ftl`, have no layer.
            let Some(other) = layer(&named) else { continue };
            assert!(other <= own, "src/{module}.rs (layer {own}) names crate::{named} (layer {other})");
            arrows += usize::from(other < own);
        }
    }
    assert!(arrows > 500, "only {arrows} arrows: paths are read wrongly");
}

/// The check of this file must find a use of a higher layer in a given source text.
#[test]
fn the_layer_check_detects_a_use_of_a_higher_layer() {
    let named =
        named_modules("use crate::store::{Store, Stream};\n// crate::device\nfn a() { crate::gc::b() }");
    assert_eq!(named, ["store", "gc/b"]);
    assert_eq!((layer("store/pool_rotation"), layer("gc/b")), (Some(4), Some(6)));
    assert_eq!((layer("sharing/reverse_map/ideal"), layer("sharing/bind")), (Some(5), Some(6)));
    assert_eq!(layer("storekeeper"), None);
}
