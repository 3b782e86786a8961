//! Tests of content mechanisms in pairs, and of each with a map or page validity on flash: a mechanism must not lose
//! what another mechanism stored. `oracle.rs` finds such errors by random operations. Here each error has a test of its
//! own, which fails if the error is built into the engine. `docs/verification.md` lists errors and tests.

#[path = "composition/chain.rs"]
mod chain;
#[path = "composition/pairs.rs"]
mod pairs;
#[path = "composition/rig.rs"]
mod rig;
#[path = "composition/traps.rs"]
mod traps;

/// Text of the document that lists the composition tests.
const DOCUMENT: &str = include_str!("../../../docs/verification.md");

/// `docs/verification.md` lists every composition test, and every test that it lists exists.
#[test]
fn the_verification_document_lists_every_composition_test() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let read = |path: &std::path::Path| std::fs::read_to_string(path).expect("a file of tests");
    let scenes = ["traps.rs", "pairs.rs"].map(|file| read(&folder.join("composition").join(file)));
    let named = |text: &str| -> Vec<String> {
        let tests = text.split("#[test]\nfn ").skip(1);
        tests.filter_map(|test| test.split('(').next()).map(str::to_owned).collect()
    };
    let scenes: Vec<String> = scenes.iter().flat_map(|text| named(text)).collect();
    assert!(scenes.len() >= 25, "{scenes:?}");
    for scene in &scenes {
        assert!(DOCUMENT.contains(&format!("`{scene}`")), "docs/verification.md does not list {scene}");
    }
    let folders = [folder, std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../replay/tests")];
    let files = folders.iter().flat_map(|folder| std::fs::read_dir(folder).expect("tests"));
    let files = files.map(|entry| entry.expect("an entry").path());
    let rust = files.filter(|path| path.extension().is_some_and(|extension| extension == "rs"));
    let mut tests: Vec<String> = rust.flat_map(|path| named(&read(&path))).collect();
    tests.extend(scenes);
    let section = DOCUMENT.split("## Mechanisms in pairs").nth(1).expect("the section is there");
    let section = section.split("\n### From the composed").next().expect("it has a part before");
    let words = section.split('`').skip(1).step_by(2);
    for name in words.filter(|word| word.matches('_').count() > 2 && !word.contains(['/', '.'])) {
        assert!(tests.iter().any(|test| test == name), "docs/verification.md names {name}, which is no test");
    }
}
