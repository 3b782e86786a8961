//! Tests that every dependency may be used under a licence that `deny.toml` allows, and that each allowed licence is
//! used by a dependency.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use crate::repository;

/// Parser of an SPDX licence expression: `A OR B`, `A AND B`, `A WITH exception`, parentheses, and the old `A/B` for
/// `OR`.
struct LicenceExpression<'a> {
    /// Words and punctuation marks of the expression, in order.
    tokens: Vec<&'a str>,
    /// Index of the first token that has not been parsed.
    next_token: usize,
}

impl<'a> LicenceExpression<'a> {
    /// Splits a licence expression into tokens.
    fn new(text: &'a str) -> Self {
        let mut tokens = Vec::new();
        for word in text.split_whitespace() {
            let mut rest = word;
            while let Some(at) = rest.find(['(', ')', '/']) {
                tokens.extend([&rest[..at], &rest[at..=at]].into_iter().filter(|token| !token.is_empty()));
                rest = &rest[at + 1..];
            }
            tokens.extend(Some(rest).filter(|token| !token.is_empty()));
        }
        Self { tokens, next_token: 0 }
    }

    /// Consumes the next token if it is one of those expected, and returns whether it was.
    fn take_token(&mut self, expected: &[&str]) -> bool {
        let found = self.tokens.get(self.next_token).is_some_and(|token| expected.contains(token));
        self.next_token += usize::from(found);
        found
    }

    /// Returns whether a licence expression permits the use of a package under the allowed licences.
    fn is_allowed(text: &'a str, allowed: &BTreeSet<String>) -> bool {
        let mut expression = Self::new(text);
        let is_allowed = expression.parse_or_expression(allowed);
        is_allowed && expression.next_token == expression.tokens.len()
    }

    /// Parses alternatives joined by `OR` or `/`, and returns whether at least one of them is allowed.
    fn parse_or_expression(&mut self, allowed: &BTreeSet<String>) -> bool {
        let mut is_allowed = self.parse_and_expression(allowed);
        while self.take_token(&["OR", "/"]) {
            is_allowed |= self.parse_and_expression(allowed);
        }
        is_allowed
    }

    /// Parses licences joined by `AND`, and returns whether all of them are allowed.
    fn parse_and_expression(&mut self, allowed: &BTreeSet<String>) -> bool {
        let mut is_allowed = self.parse_licence_or_parentheses(allowed);
        while self.take_token(&["AND"]) {
            is_allowed &= self.parse_licence_or_parentheses(allowed);
        }
        is_allowed
    }

    /// Parses one licence, or an expression in parentheses, and returns whether it is allowed.
    fn parse_licence_or_parentheses(&mut self, allowed: &BTreeSet<String>) -> bool {
        if self.take_token(&["("]) {
            let is_allowed = self.parse_or_expression(allowed);
            return self.take_token(&[")"]) && is_allowed;
        }
        let Some(&name) = self.tokens.get(self.next_token) else { return false };
        self.next_token += 1;
        if self.take_token(&["WITH"]) {
            // An exception only adds permissions.
            self.next_token += 1;
        }
        allowed.contains(name)
    }
}

/// Returns the output of `cargo metadata` for Wearwell with these additional arguments; `None` if the command fails.
fn cargo_metadata(more: &[&str]) -> Option<serde_json::Value> {
    let mut command = repository::cargo();
    command.args(["metadata", "--format-version", "1", "--all-features", "--locked", "--offline"]).args(more);
    let output = command.output().expect("cargo runs");
    output.status.success().then(|| serde_json::from_slice(&output.stdout).expect("metadata is JSON"))
}

/// Returns the packages on which Wearwell depends, each with its licence expression. If the packages of some platforms
/// are not downloaded, only those of the present platform are returned, which the build has downloaded.
fn dependencies() -> Vec<(String, String)> {
    let host = || {
        let output = Command::new("rustc").arg("-vV").output().expect("rustc runs");
        let text = String::from_utf8(output.stdout).expect("rustc prints text");
        let triple = text.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc knows its host");
        cargo_metadata(&["--filter-platform", triple]).expect("the build has fetched its packages")
    };
    let metadata = cargo_metadata(&[]).unwrap_or_else(host);
    let packages = metadata["packages"].as_array().expect("packages are a list");
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    packages.iter().map(|package| (text(&package["name"]), text(&package["license"]))).collect()
}

/// Returns the section `[licenses]` of `deny.toml`.
fn licence_section() -> toml::Table {
    let text = std::fs::read_to_string(repository::root().join("deny.toml"))
        .expect("deny.toml is in the repository");
    let table: toml::Table = text.parse().expect("deny.toml is TOML");
    table["licenses"].as_table().expect("licenses is a section").clone()
}

/// Returns the texts of a TOML list as a set.
fn names_in(list: &toml::Value) -> BTreeSet<String> {
    let list = list.as_array().expect("allow is a list");
    list.iter().map(|name| name.as_str().expect("a licence is a name").to_owned()).collect()
}

/// Returns the licences that every package may have.
fn allowed_licences() -> BTreeSet<String> {
    names_in(&licence_section()["allow"])
}

/// Returns the licences that single packages may have in addition, by name of the package.
fn licence_exceptions() -> BTreeMap<String, BTreeSet<String>> {
    let licences = licence_section();
    let list = licences["exceptions"].as_array().expect("exceptions are a list");
    let exception = |of_package: &toml::Value| {
        let name = of_package["crate"].as_str().expect("a package is a name");
        (name.to_owned(), names_in(&of_package["allow"]))
    };
    list.iter().map(exception).collect()
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let (allowed, exceptions) = (allowed_licences(), licence_exceptions());
    let packages = dependencies();
    assert!(packages.len() > 50, "only {} packages: the list is not whole", packages.len());
    let is_refused = |(name, licence): &&(String, String)| {
        let more = exceptions.get(name).into_iter().flatten();
        !LicenceExpression::is_allowed(licence, &allowed.iter().chain(more).cloned().collect())
    };
    let refused: Vec<_> = packages.iter().filter(is_refused).collect();
    assert!(refused.is_empty(), "licences outside deny.toml: {refused:?}");
}

#[test]
fn every_licence_exception_names_a_dependency() {
    let packages = dependencies();
    for name in licence_exceptions().keys() {
        assert!(packages.iter().any(|(package, _)| package == name), "{name} is no dependency: take it out");
    }
}

#[test]
fn every_allowed_licence_is_used_by_a_dependency() {
    let allowed = allowed_licences();
    let packages = dependencies();
    for licence in &allowed {
        let fewer: BTreeSet<String> = allowed.iter().filter(|name| *name != licence).cloned().collect();
        let is_needed = packages.iter().any(|(_, licence)| !LicenceExpression::is_allowed(licence, &fewer));
        assert!(is_needed, "no dependency needs {licence}: take it out of deny.toml");
    }
}

#[test]
fn licence_expressions_are_parsed_as_spdx_defines() {
    let allowed: BTreeSet<String> = ["MIT", "Zlib"].map(str::to_owned).into();
    let allowed_ones =
        ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-2.0", "MIT AND Zlib", "(GPL-2.0 OR MIT) AND Zlib", "MIT WITH x"];
    let refused_ones =
        ["", "GPL-3.0", "MIT AND GPL-2.0", "GPL-2.0 OR MIT AND Apache-2.0", "(MIT", "MIT Zlib", "mit"];
    for text in allowed_ones {
        assert!(LicenceExpression::is_allowed(text, &allowed), "{text:?} is refused");
    }
    for text in refused_ones {
        assert!(!LicenceExpression::is_allowed(text, &allowed), "{text:?} is allowed");
    }
}
