//! Parameters of a database's URI: parses which device stores the database, and with which properties.
//!
//! ```text
//! file:NAME?vfs=wearwell&image=DIR                         an image; with size= it is created when there is none
//! file:NAME?vfs=wearwell&memory=on&size=256MiB             flash in memory, discarded with the last connection
//! file:NAME?vfs=wearwell&nbd=SOCKET&control=SOCKET         the device of a running `wearwell serve`
//! ```
//!
//! For a new device there are also `design=`, `size=` and `set=key=value,key=value`, and for an image `durability=`.
//! With `remap=off` checkpoints write pages instead of remapping them.
//!
//! No parameter is ignored: one that is unknown, is given twice, or has no effect on the device is refused.

use std::path::PathBuf;

use wearwell_config::{Config, ConfigError};
use wearwell_serve::image::Durability;
use wearwell_serve::{memory_device, parse_size_bytes};

use crate::error::Error;
pub use crate::requested_image::{DEFAULT_DESIGN, RequestedImage};

/// Names of all URI parameters of this VFS.
pub(crate) const URI_PARAMETERS: [&str; 9] =
    ["image", "memory", "nbd", "control", "design", "size", "durability", "set", "remap"];

/// Names of URI parameters that `SQLite`, its own VFSs or its encryption extension read.
const SQLITE_URI_PARAMETERS: [&str; 15] = [
    "vfs",
    "mode",
    "cache",
    "psow",
    "nolock",
    "immutable",
    "modeof",
    "ptr",
    "8_3_names",
    "readonly_shm",
    "exclusive",
    "reserve",
    "key",
    "hexkey",
    "textkey",
];

/// Location of the device that stores the database: in the memory of this process, in an image, or on a running server.
#[derive(Clone, Debug)]
pub enum Backend {
    /// The device runs in this process, with simulated flash in memory.
    Memory(Box<memory_device::MemoryDeviceSpecification>),
    /// The device runs in this process, with its flash in an image (a directory of files).
    Image {
        /// Directory of the image.
        directory: PathBuf,
        /// Properties of the image that the database's URI asks for.
        requested: RequestedImage,
    },
    /// The device belongs to a running server (`wearwell serve`).
    Server {
        /// Path of the server's NBD socket.
        nbd_socket: PathBuf,
        /// Path of the server's control socket.
        control: PathBuf,
    },
}

/// Options of an open database, from the parameters of its URI.
#[derive(Clone, Debug)]
pub struct Options {
    /// Location of the device that stores the database.
    pub backend: Backend,
    /// Whether a checkpoint remaps the pages that it copies from the write-ahead log to the database, instead of
    /// writing them.
    pub remaps_checkpoints: bool,
    /// Values of all URI parameters as one text. Two connections use the same device if their texts are equal.
    pub device_identity: String,
}

impl Options {
    /// Parses the parameters of a database's URI. `parameter` returns the value of the parameter with a given name.
    ///
    /// # Errors
    /// [`Error::Parameter`], [`Error::Config`].
    pub fn from_uri_parameters(parameter: impl Fn(&str) -> Option<String>) -> Result<Self, Error> {
        let refuse = |sentence: &str| Err(Error::Parameter(sentence.to_owned()));
        require_valid_utf8_values(&parameter)?;
        let remap = parse_switch("remap", parameter("remap").as_deref(), true)?;
        let is_memory = parse_switch("memory", parameter("memory").as_deref(), false)?;
        let size = parameter("size").map(|text| parse_size_bytes(&text)).transpose();
        let size_bytes = size.map_err(|sentence| Error::Parameter(format!("size=: {sentence}")))?;
        let durability = parse_durability(parameter("durability").as_deref())?;
        let settings: Vec<String> =
            parameter("set").iter().flat_map(|text| text.split(',')).map(str::to_owned).collect();
        if let Some(part) = settings.iter().find(|part| !part.contains('=')) {
            return Err(Error::Parameter(format!(
                "set= has the part `{part}`, which is no setting (section.key=value): separate settings by commas, and \
                 the names of a list by +, such as set=gc.policy=fifo,parts.content=dedup+recycle"
            )));
        }
        let config = Config::from_text_and_settings(None, &settings)?;
        let refuse_parameters_without_effect = |names: &[&str], device: &str| {
            let given = names.iter().find(|&&name| parameter(name).is_some());
            given.map_or(Ok(()), |name| {
                Err(Error::Parameter(format!("{name}= has no effect on {device}: leave it out")))
            })
        };
        let backend = match (is_memory, parameter("image"), parameter("nbd"), parameter("control")) {
            (true, None, None, None) => {
                refuse_parameters_without_effect(&["durability"], "a device in memory")?;
                let design = parameter("design").unwrap_or_else(|| DEFAULT_DESIGN.to_owned());
                if size_bytes.is_none()
                    && config.device.preset.is_none()
                    && config.device.logical_pages.is_none()
                {
                    return refuse("a device in memory has no size: add size=, such as size=256MiB");
                }
                let specification =
                    memory_device::MemoryDeviceSpecification::new(&design, config, size_bytes)?;
                Backend::Memory(specification.into())
            }
            (false, Some(directory), None, None) => {
                let requested =
                    RequestedImage { design: parameter("design"), size_bytes, durability, settings };
                Backend::Image { directory: directory.into(), requested }
            }
            (false, None, Some(nbd), Some(control)) => {
                let names = ["design", "size", "durability", "set"];
                refuse_parameters_without_effect(&names, "the device of a running server")?;
                Backend::Server { nbd_socket: nbd.into(), control: control.into() }
            }
            (false, None, Some(_), None) | (false, None, None, Some(_)) => {
                return refuse("a running server needs both its sockets: give nbd=SOCKET&control=SOCKET");
            }
            _ => {
                return refuse(
                    "the database's URI does not name one device: give exactly one of image=DIR, \
                     memory=on&size=256MiB, nbd=SOCKET&control=SOCKET; or vfs=unix for a database that is a file",
                );
            }
        };
        let identity: Vec<String> =
            URI_PARAMETERS.iter().map(|&name| parameter(name).unwrap_or_default()).collect();
        Ok(Self { backend, remaps_checkpoints: remap, device_identity: identity.join("&") })
    }
}

/// Refuses parameter values that are empty or were not UTF-8. (In the latter, replacement characters show this.)
fn require_valid_utf8_values(parameter: impl Fn(&str) -> Option<String>) -> Result<(), Error> {
    for name in URI_PARAMETERS {
        match parameter(name) {
            Some(value) if value.is_empty() => {
                return Err(Error::Parameter(format!("{name}= is empty: give a value, or leave it out")));
            }
            Some(value) if value.contains(char::REPLACEMENT_CHARACTER) => {
                return Err(Error::Parameter(format!(
                    "{name}={value} is not UTF-8: use names of files and folders in UTF-8"
                )));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Parses the value of a parameter that is `on` or `off`. `default` is the result if the URI does not have the
/// parameter.
fn parse_switch(name: &str, value: Option<&str>, default: bool) -> Result<bool, Error> {
    match value {
        None => Ok(default),
        Some("on" | "1" | "true" | "yes") => Ok(true),
        Some("off" | "0" | "false" | "no") => Ok(false),
        Some(other) => Err(Error::Parameter(format!("{name}= is `{other}`: give on or off"))),
    }
}

/// Parses the durability mode of an image's session; `None` if the URI does not have the parameter.
fn parse_durability(value: Option<&str>) -> Result<Option<Durability>, Error> {
    match value {
        None => Ok(None),
        Some("process") => Ok(Some(Durability::Process)),
        Some("host") => Ok(Some(Durability::Host)),
        Some(other) => Err(Error::Parameter(format!("durability= is `{other}`: give process or host"))),
    }
}

/// Checks the names of all parameters of a database's URI.
///
/// # Errors
/// [`Error::Config`] for a name that neither this VFS nor `SQLite` knows; [`Error::Parameter`] for a parameter of this
/// VFS that is given twice.
pub fn require_known_parameters(names: &[String]) -> Result<(), Error> {
    for (k, name) in names.iter().enumerate() {
        let is_known = URI_PARAMETERS.contains(&name.as_str());
        if !is_known && !SQLITE_URI_PARAMETERS.contains(&name.as_str()) {
            return Err(
                ConfigError::unknown_name("parameter of the database URI", name, URI_PARAMETERS).into()
            );
        }
        if is_known && names[..k].contains(name) {
            return Err(Error::Parameter(format!("{name}= is given twice: give it once")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parses options from pairs of parameter name and value.
    fn parse_uri_parameter_pairs(parameters: &[(&str, &str)]) -> Result<Options, Error> {
        Options::from_uri_parameters(|name| {
            let found = parameters.iter().find(|&&(key, _)| key == name);
            found.map(|&(_, value)| value.to_owned())
        })
    }

    #[test]
    fn every_sqlite_backend_is_selected_by_its_parameter() {
        let image = parse_uri_parameter_pairs(&[("image", "x"), ("remap", "off")]).expect("it is complete");
        assert!(
            matches!(&image.backend, Backend::Image { requested, .. } if *requested == RequestedImage::default())
                && !image.remaps_checkpoints
        );
        let new = parse_uri_parameter_pairs(&[("image", "x"), ("size", "64MiB")]).expect("it is complete");
        assert!(
            matches!(&new.backend, Backend::Image { requested, .. } if requested.size_bytes == Some(64 << 20))
                && new.remaps_checkpoints
        );
        let set = ("set", "remap.dedup=false,remap.sparse_counts=true");
        let memory =
            parse_uri_parameter_pairs(&[("memory", "on"), ("size", "64MiB"), set]).expect("it is complete");
        let Backend::Memory(specification) = memory.backend else { panic!("it is another backend") };
        assert!(!specification.config.remap.dedup && specification.config.remap.sparse_counts);
        let server = parse_uri_parameter_pairs(&[("nbd", "a"), ("control", "b")]).expect("it is complete");
        assert!(matches!(server.backend, Backend::Server { .. }));
    }

    #[test]
    fn contradictory_sqlite_parameters_are_refused() {
        let refused: [&[(&str, &str)]; 16] = [
            &[],
            &[("image", "")],
            &[("image", "/data/\u{FFFD}")],
            &[("memory", "on"), ("size", "64MiB"), ("set", "")],
            &[("memory", "on"), ("size", "64MiB"), ("set", "parts.content=dedup,recycle")],
            &[("memory", "on")],
            &[("memory", "maybe"), ("size", "64MiB")],
            &[("image", "x"), ("nbd", "y"), ("control", "z")],
            &[("nbd", "y")],
            &[("image", "x"), ("size", "64 potatoes")],
            &[("image", "x"), ("durability", "forever")],
            &[("memory", "on"), ("size", "64MiB"), ("set", "remap.dedupe=false")],
            &[("memory", "on"), ("size", "64MiB"), ("durability", "forever")],
            &[("memory", "on"), ("size", "64MiB"), ("durability", "host")],
            &[("nbd", "y"), ("control", "z"), ("size", "64MiB")],
            &[("nbd", "y"), ("control", "z"), ("design", "delta")],
        ];
        for parameters in refused {
            let error = parse_uri_parameter_pairs(parameters).expect_err("it is unclear");
            assert!(error.to_string().len() > 20, "{parameters:?}: {error}");
        }
    }
}
