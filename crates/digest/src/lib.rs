//! Digests the sources of a crate while it is built, so that a record of results can name the code that made it.
//!
//! Unit tests, lines that are only a comment, blank lines and indentation are left out, because they change no result.
//! Paths are left out, too, so that a checkout and a packaged crate have the same digest. Each crate whose code
//! affects results calls [`export_source_digest`] in its build script and reads the digest from the environment
//! variable `CODE_DIGEST` when it is compiled.

#![forbid(unsafe_code)]

use std::fs;
use std::path::{Path, PathBuf};

/// Digests the source files in the folder `src` for which `includes_file` returns true, and passes the digest to the
/// compiler as the environment variable `CODE_DIGEST`. Build scripts call this function.
pub fn export_source_digest(includes_file: impl Fn(&Path) -> bool) {
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    collect_files(Path::new("src"), &mut files);
    files.sort();
    let digest = files.iter().filter(|path| includes_file(path)).fold(FNV_OFFSET, |digest, path| {
        add_source_code_to_digest(digest, &fs::read_to_string(path).expect("sources are UTF-8"))
    });
    println!("cargo::rustc-env=CODE_DIGEST={digest:016x}");
}

/// Appends the paths of all Rust source files in `folder` and its subfolders to `files`.
fn collect_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the crate has sources") {
        let path = entry.expect("a folder can be listed").path();
        if path.is_dir() {
            collect_files(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
}

/// Adds the code lines of a source text to a digest, and returns the new digest. Unit tests, comments and blank lines
/// are left out. The text has to be formatted by rustfmt, by whose indentation unit tests are recognised.
pub fn add_source_code_to_digest(digest: u64, text: &str) -> u64 {
    let mut lines = text.lines();
    let mut result = digest;
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            skip_rust_item(&mut lines, indentation(line));
        } else if is_code_line(line.trim()) {
            result = add_line_to_fnv(result, line.trim());
        }
    }
    result
}

/// Skips the lines of a Rust item in a source text, so that they are not digested: up to the next line that has the
/// indentation `indent` and ends with a brace or a semicolon.
fn skip_rust_item<'a>(lines: &mut impl Iterator<Item = &'a str>, indent: usize) {
    lines.find(|line| indentation(line) == indent && line.ends_with(['}', ';']));
}

/// Returns the number of bytes of white space at the beginning of a line.
fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// Returns whether a line without surrounding blanks has code, that is, is neither blank nor a line comment.
fn is_code_line(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("//")
}

/// Digest of no bytes: the start value of the hash FNV-1a with 64 bits.
const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
/// Multiplier of the hash FNV-1a with 64 bits.
const FNV_PRIME: u64 = 0x0000_0100_0000_01b3;

/// Adds a line and its line end to an FNV-1a digest, a short algorithm with the same result on every machine.
fn add_line_to_fnv(digest: u64, line: &str) -> u64 {
    line.bytes()
        .chain([b'\n'])
        .fold(digest, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(FNV_PRIME))
}

#[cfg(test)]
mod tests {
    use super::add_source_code_to_digest;

    #[test]
    fn comments_and_layout_do_not_change_the_digest() {
        let digest = |text: &str| add_source_code_to_digest(7, text);
        let code = digest("fn a() {\n    b(1);\n}\n");
        assert_eq!(
            code,
            digest("/// Calls.\nfn a() {\n\n  // Once.\n  b(1);\n}"),
            "comments and layout do not count"
        );
        let with_tests =
            "fn a() {\n    b(1);\n}\n#[cfg(test)]\nuse c;\n\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
        assert_eq!(code, digest(with_tests), "unit tests do not count");
        assert_ne!(code, digest(&format!("{with_tests}fn d() {{}}\n")), "code after a unit test counts");
        for other in
            ["fn a() {\n    b(2);\n}\n", "fn a() {\n    b(1);\n    b(1);\n}\n", "fn a() {\n}\n    b(1);\n"]
        {
            assert_ne!(code, digest(other), "{other}");
        }
    }
}
