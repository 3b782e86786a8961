//! Images: a device's flash and NVRAM in a directory of files.
//!
//! [`create`] makes one for a design and a geometry, [`Image::open`] locks it, repairs what the end of the last session left
//! half done and what is damaged in one of two places, and recovers the device by the engine's own recovery, as after a cut of power; [`audit`] does the same on a
//! view that changes nothing and proves every conservation law. Format: `docs/FORMAT.md` and `layout`.
//!
//! RAM is volatile here: designs that assume a battery run with their map in NVRAM
//! ([`Parts::without_battery`](wearwell::design::Parts::without_battery)), and designs whose battery writes the map to flash
//! are refused.
//!
//! What survives is said by [`Durability`]. In both modes the unit that is all-old or all-new is a page, and the states
//! after an interruption are those of the engine's own model of power cuts
//! ([`PowerCut`](wearwell::nand::PowerCut)): each operation not begun, torn, or done. The end of a process leaves no torn
//! ones; the end of the host may leave torn programs after the last flush.

mod audit;
mod backing;
mod copy;
mod create;
mod epoch;
mod error;
pub mod journal;
pub mod layout;
mod load;
mod nand;
mod rescue;
mod sides;
mod upgrade;
mod version1;

use std::collections::BTreeSet;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

pub use audit::{AuditReport, Verdict, audit, audit_of};
use backing::read_front;
pub use backing::{Access, Backing, CopyOnWrite, Files, ImageFile};
pub use copy::{Changes, CopyReport, RepairReport, copy, repair};
pub use create::{Specification, create, create_on, create_watched};
pub use error::ImageError;
pub use layout::Durability;
use layout::{
    Layout, MAX_CONFIG_BYTES, NoSuperblock, RECORD_BYTES, SUPERBLOCK_BYTES, Session, Superblock, VERSION,
};
use load::{Expectation, Loaded, load};
pub use nand::FileNand;
use sides::{SIDES, Side};
pub use upgrade::{upgrade, upgrade_on};
use wearwell::address::Lpn;
use wearwell::design::Parts;
use wearwell::recovery::RecoveryReport;
use wearwell::store::RESERVE_BLOCKS;
use wearwell::{Device, DeviceOptions};
use wearwell_config::Config;

use crate::device::Identity;

/// How an image is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OpenOptions {
    /// What the session survives, if not what the image says.
    pub durability: Option<Durability>,
}

/// What opening found and did.
#[derive(Clone, Debug, Default)]
pub struct OpenReport {
    /// The last session did not close the image.
    pub was_unclean: bool,
    /// The host was started again since a session that only survives the end of the process, and that did not end cleanly:
    /// what was written last may be lost.
    pub host_restarted: bool,
    /// Pages that the end of the host left half done.
    pub torn_pages: u64,
    /// Records and sectors of metadata that one of their two places lacked, and that were written there again. After a session
    /// that did not end cleanly the mirror may have lagged; else they were damaged.
    pub repaired: u64,
    /// Sessions that did not end cleanly, in the life of the image.
    pub unsafe_shutdowns: u64,
    /// Sessions in the life of the image, this one counted.
    pub sessions: u64,
    /// What the engine's recovery did.
    pub recovery: RecoveryReport,
    /// Of a rescued image, what is damaged at both sides, a sentence for each place.
    pub findings: Vec<String>,
    /// Of a rescued image, the logical pages whose newest version cannot be proven. The device reads them as zeros: whoever
    /// serves it has to refuse them ([`FlashDevice::refuse_unproven`](crate::FlashDevice::refuse_unproven)).
    pub unproven: BTreeSet<Lpn>,
}

/// An open image: a device over its files.
#[derive(Debug)]
pub struct Image<B: Backing = Files> {
    /// The device.
    pub device: Device<FileNand<B>>,
    /// What the superblock says.
    pub superblock: Superblock,
    /// What opening found.
    pub report: OpenReport,
    /// The configuration that is in force, TOML: under which a replay does the same.
    pub config: String,
    endurance_cycles: u32,
}

impl Image {
    /// Opens the image in a directory and recovers the device.
    ///
    /// # Errors
    /// [`ImageError`]: no image, another version, in use, files too short, damage, files that cannot be written.
    pub fn open(directory: &Path, options: OpenOptions) -> Result<Self, ImageError> {
        Self::open_on(Files::open(directory, Access::Write)?, options)
    }
}

impl<B: Backing> Image<B> {
    /// As [`Image::open`], over any files.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open_on(backing: B, options: OpenOptions) -> Result<Self, ImageError> {
        refusing_contradictions(|| Self::recover_on(backing, options, false))
    }

    /// Opens what is left of an image that is damaged at both sides, on a view that is only read: see [`rescue`].
    ///
    /// # Errors
    /// As [`Image::open`]; damage after which nothing can be proven.
    pub fn rescue_on(view: B) -> Result<Self, ImageError> {
        // Nothing has to survive what a view does not.
        let options = OpenOptions { durability: Some(Durability::Process) };
        refusing_contradictions(|| Self::recover_on(view, options, true)).map_err(|error| match error {
            ImageError::Damaged { findings } => ImageError::Lost { findings },
            error => error,
        })
    }

    fn recover_on(mut backing: B, options: OpenOptions, rescues: bool) -> Result<Self, ImageError> {
        let found = Found::read(&mut backing, rescues)?;
        let mut report = found.report();
        let superblock = found.superblock.clone();
        let layout = found.layout.clone();
        let mut loaded = found.load(&mut backing, Loading { verifies_all: false, rescues })?;
        if rescues {
            report.unproven = rescue::leave_out_unproven(&mut loaded, &superblock, &layout)?;
            report.findings = std::mem::take(&mut loaded.findings);
        } else if !loaded.findings.is_empty() {
            return Err(ImageError::Damaged { findings: loaded.findings });
        }
        let torn = loaded.torn.clone();
        report.torn_pages = torn.len() as u64;
        report.repaired += loaded.repaired;
        let session = Session {
            is_clean: false,
            durability: options.durability.unwrap_or(superblock.durability),
            boot: this_boot(),
            unsafe_shutdowns: report.unsafe_shutdowns,
            sessions: report.sessions,
            number: 0,
        };
        let mut nand = FileNand::new(backing, layout, loaded, session);
        // The pages that are half done are sealed before the session begins under which nobody would look for them.
        let repaired = torn.into_iter().try_for_each(|(ppn, epoch)| nand.seal_torn(ppn, epoch));
        repaired.and_then(|()| nand.begin_session()).map_err(|_| stopped(&nand))?;
        let Recovered { device, recovery, config, endurance_cycles } = recover(nand, &superblock)?;
        report.recovery = recovery;
        Ok(Self { device, superblock, report, config, endurance_cycles })
    }

    /// Writes everything out and notes that the image was closed.
    ///
    /// # Errors
    /// As [`close`].
    pub fn close(self) -> Result<(), ImageError> {
        close(self.device)
    }

    /// What a live device says about itself.
    pub fn identity(&self) -> Identity {
        Identity {
            design: self.superblock.design.clone(),
            endurance_cycles: self.endurance_cycles,
            power_cycles: self.report.sessions,
            unsafe_shutdowns: self.report.unsafe_shutdowns,
        }
    }

    /// The files, without closing: what the end of the process leaves.
    pub fn into_backing(self) -> B {
        self.device.into_nand().into_backing()
    }
}

/// Writes everything of a device out and notes that its image was closed.
///
/// # Errors
/// What [`Device::flush`] says; what the host has against it. The image is as after an unclean end then.
pub fn close<B: Backing>(mut device: Device<FileNand<B>>) -> Result<(), ImageError> {
    let flushed = device.flush();
    let nand = device.ftl_mut().store_mut().nand_mut();
    if nand.failure().is_none() {
        flushed?;
    }
    nand.end_session().map_err(|_| stopped(nand))
}

/// The parts that a device over an image consists of, and the cycles its blocks are rated for.
///
/// # Errors
/// [`ImageError::Config`], and [`ImageError::Device`] for a design that needs a battery.
fn parts_of(config: &Config, superblock: &Superblock) -> Result<(Parts, u32), ImageError> {
    let resolved = config.resolve(u64::from(superblock.logical_pages))?;
    if resolved.geometry != superblock.geometry || resolved.logical_pages != superblock.logical_pages {
        return Err(ImageError::Setting(
            "the superblock's geometry is not that of its configuration: it was written by another version; restore the \
             image with the version that made it"
                .into(),
        ));
    }
    let parts = config.parts(&superblock.design, &resolved)?.without_battery()?;
    Ok((parts, resolved.endurance_cycles))
}

fn stopped<B: Backing>(nand: &FileNand<B>) -> ImageError {
    ImageError::Setting(nand.failure().unwrap_or("the medium stopped").to_owned())
}

/// Opens or audits. The engine takes it for certain that what it wrote agrees, and panics where it does not; files from
/// different moments, each of them whole, need not agree. Nothing that the panic left behind is used: the device was built
/// inside and is gone.
fn refusing_contradictions<T>(work: impl FnOnce() -> Result<T, ImageError>) -> Result<T, ImageError> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panicked| {
        let text = panicked.downcast_ref::<String>().map(String::as_str);
        let broken = text.or(panicked.downcast_ref::<&str>().copied()).unwrap_or("an invariant is broken");
        Err(ImageError::Damaged { findings: vec![format!("its records contradict each other ({broken})")] })
    })
}

struct Recovered<B> {
    device: Device<FileNand<B>>,
    recovery: RecoveryReport,
    config: String,
    endurance_cycles: u32,
}

/// The device over a medium that was found with data.
fn recover<B: Backing>(mut nand: FileNand<B>, superblock: &Superblock) -> Result<Recovered<B>, ImageError> {
    let mut config = Config::from_parts(Some(("superblock", &superblock.config)), &[])?;
    let (mut parts, endurance_cycles) = parts_of(&config, superblock)?;
    // Chunks have no more numbers than an erase gives back.
    if nand.durability() == Durability::Host && parts.content.chunks.is_none() {
        parts.gc.low_blocks = parts.gc.low_blocks.max(blocks_for_syncs(superblock));
        config.gc.low_blocks = Some(parts.gc.low_blocks);
        nand.group_erases(parts.gc.low_blocks.saturating_sub(RESERVE_BLOCKS));
    }
    let options = DeviceOptions { buffer: config.named_buffer() };
    let mut device = Device::new(nand, superblock.logical_pages, &parts, options)?;
    let recovery = device.recover().map_err(|error| match device.ftl().store().nand().failure() {
        Some(failure) => ImageError::Setting(failure.to_owned()),
        None => error.into(),
    })?;
    Ok(Recovered { device, recovery, config: config.to_toml(), endurance_cycles })
}

/// Free blocks of a pool that a `host` session has collected beforehand, so that erases can wait for a sync: an eighth of the
/// spare blocks, which costs little write amplification, and not more than are worth while.
fn blocks_for_syncs(superblock: &Superblock) -> u32 {
    const MOST_OF_ALL_POOLS: u32 = 32;
    let Superblock { geometry, logical_pages, .. } = superblock;
    let spare = geometry.blocks().saturating_sub(logical_pages.div_ceil(geometry.block_pages()));
    spare.div_ceil(8).min(MOST_OF_ALL_POOLS) / geometry.pools()
}

fn io_error<'a>(
    backing: &'a impl Backing,
    doing: &'static str,
    file: ImageFile,
) -> impl FnOnce(std::io::Error) -> ImageError + 'a {
    move |source| ImageError::Io { doing, path: backing.place(file), source }
}

/// The boot of this host, zeros if it does not say.
fn this_boot() -> [u8; 16] {
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits = text.trim().replace('-', "");
    u128::from_str_radix(&digits, 16).unwrap_or_default().to_be_bytes()
}

/// How much is read, and what is done about damage.
#[derive(Clone, Copy)]
struct Loading {
    /// All data is compared with its checksum.
    verifies_all: bool,
    /// What is damaged at both sides is left out.
    rescues: bool,
}

/// What an image's small files and its journal say.
struct Found {
    superblock: Superblock,
    layout: Layout,
    session: Session,
    journal: journal::Found,
    host_restarted: bool,
    repaired: u64,
}

impl Found {
    fn read(backing: &mut impl Backing, rescues: bool) -> Result<Self, ImageError> {
        let (superblock, of_superblock) = read_superblock(backing)?;
        let layout = Layout::new(&superblock);
        complete_flash(backing, &layout)?;
        let (mut session, of_session) = read_session(backing, &layout);
        let damaged = |finding| ImageError::Damaged { findings: vec![finding] };
        let journal = if rescues {
            let last = rescue::newest_number(backing, &layout, &session);
            journal::salvage(backing, &layout, last)
        } else {
            journal::read(backing, &layout).map_err(damaged)?
        };
        if session.is_clean && session.number > journal.number() {
            return Err(damaged(format!(
                "both copies of the journal end with record {}, and the image was closed after record {}",
                journal.number(),
                session.number
            )));
        }
        // A session that began since left no record of itself.
        session.is_clean &= session.number == journal.number();
        let boot = this_boot();
        let is_other_boot = session.boot != boot && session.boot != [0; 16] && boot != [0; 16];
        let host_restarted = !session.is_clean && session.durability == Durability::Process && is_other_boot;
        let repaired = of_superblock + of_session;
        Ok(Self { superblock, layout, session, journal, host_restarted, repaired })
    }

    fn report(&self) -> OpenReport {
        OpenReport {
            was_unclean: !self.session.is_clean,
            host_restarted: self.host_restarted,
            unsafe_shutdowns: self.session.unsafe_shutdowns + u64::from(!self.session.is_clean),
            sessions: self.session.sessions + 1,
            repaired: self.repaired,
            ..OpenReport::default()
        }
    }

    /// The state of the flash, with what is damaged beyond repair.
    fn load(self, backing: &mut impl Backing, loading: Loading) -> Result<Loaded, ImageError> {
        let Loading { verifies_all, rescues } = loading;
        let Self { superblock, layout, session, journal, host_restarted, .. } = self;
        let is_host = !session.is_clean && session.durability == Durability::Host;
        let whole_up_to = if is_host || host_restarted { journal.synced() } else { u64::MAX };
        let logical_pages = superblock.logical_pages;
        let expectation = Expectation { whole_up_to, verifies_all, logical_pages, rescues };
        let loaded = load(backing, &layout, journal, expectation);
        let mut loaded = loaded.map_err(io_error(backing, "read", ImageFile::Flash))?;
        if session.is_clean {
            loaded.journal.note_synced();
        }
        Ok(loaded)
    }
}

/// The superblock from the side that has it, and how many sides had to be repaired. An image that version 1 wrote is not
/// opened, whatever the mirror says: an interrupted upgrade has not changed anything yet.
fn read_superblock(backing: &mut impl Backing) -> Result<(Superblock, u64), ImageError> {
    let most = SUPERBLOCK_BYTES as u64 + u64::from(MAX_CONFIG_BYTES);
    let home = read_front(backing, ImageFile::Superblock, most);
    let home = home.map_err(io_error(backing, "read", ImageFile::Superblock))?;
    let mirror = read_front(backing, ImageFile::Mirror, most).unwrap_or_default();
    if Superblock::decode_as(1, &home).is_ok() {
        return Err(ImageError::Version { found: 1, known: VERSION });
    }
    let found = [Superblock::decode(&home), Superblock::decode(&mirror)];
    let superblock = match &found {
        // The superblock of another image is whole, too.
        [Ok(home), Ok(mirror)] if home != mirror && !is_of_this_image(backing, home) => mirror.clone(),
        [Ok(superblock), _] | [Err(_), Ok(superblock)] => superblock.clone(),
        [Err(NoSuperblock::Version(found)), _] => {
            return Err(ImageError::Version { found: *found, known: VERSION });
        }
        [Err(NoSuperblock::Magic), _] if home.is_empty() && mirror.is_empty() => {
            return Err(ImageError::NoImage { path: backing.place(ImageFile::Superblock) });
        }
        [Err(_), Err(_)] => {
            return Err(ImageError::Damaged {
                findings: vec!["both copies of its superblock are damaged".into()],
            });
        }
    };
    let (bytes, layout) = (superblock.encode(), Layout::new(&superblock));
    let mut repaired = 0;
    for (side, found) in SIDES.into_iter().zip(found) {
        if found.as_ref() != Ok(&superblock) {
            side.repair(backing, &layout, ImageFile::Superblock, &bytes, 0);
            repaired += 1;
        }
    }
    Ok((superblock, repaired))
}

/// Whether any copy of the session has the salt of a superblock.
fn is_of_this_image(backing: &impl Backing, superblock: &Superblock) -> bool {
    let layout = Layout::new(superblock);
    SIDES.into_iter().any(|side| read_session_of(backing, &layout, side).is_some())
}

fn read_session_of(backing: &impl Backing, layout: &Layout, side: Side) -> Option<Session> {
    let mut bytes = [0; RECORD_BYTES];
    let is_read = side.read(backing, layout, ImageFile::Session, &mut bytes, 0);
    is_read.then(|| Session::decode(&bytes, layout.salt)).flatten()
}

/// A flash file that was cut short gets its length: the data that were cut off are lost, each page alone.
fn complete_flash(backing: &mut impl Backing, layout: &Layout) -> Result<(), ImageError> {
    let file = ImageFile::Flash;
    let (len, needed) = (backing.len(file), layout.flash_bytes());
    if len.map_err(io_error(backing, "measure", file))? < needed {
        backing.write(file, &[0], needed - 1).map_err(io_error(backing, "write", file))?;
    }
    Ok(())
}

/// The newer copy of the session, and how many sides had to be repaired. Where there is none, the last session counts as one that
/// the host ended: a session is a statistic, but for that.
fn read_session(backing: &mut impl Backing, layout: &Layout) -> (Session, u64) {
    let file = ImageFile::Session;
    let found = SIDES.map(|side| read_session_of(backing, layout, side));
    let newest = found.into_iter().flatten().max_by_key(|session| (session.sessions, session.number));
    let session = newest.unwrap_or(Session { durability: Durability::Host, ..Session::default() });
    let mut repaired = 0;
    for (side, found) in SIDES.into_iter().zip(found) {
        if found != Some(session) {
            side.repair(backing, layout, file, &session.encode(layout.salt), 0);
            repaired += 1;
        }
    }
    (session, repaired)
}
