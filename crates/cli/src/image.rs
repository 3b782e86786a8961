//! The commands `create`, `check`, `repair`, `copy` and `upgrade`: images of live devices.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use wearwell_serve::image::{
    self, AuditReport, AuditVerdict, ImageCopyOptions, ImageError, ImageSpecification,
};

use crate::args::{CopyArgs, CreateArgs, RepairArgs};
use crate::output::{print, print_message};
use crate::run::{read_config, refuse_settings_ignored_by_design};
use crate::{Failure, Outcome};

/// Executes the command `create`: creates the image of a live device.
pub(crate) fn create(args: &CreateArgs) -> Result<Outcome, Failure> {
    let live = &args.live_device;
    let specification = ImageSpecification {
        design: live.design.clone(),
        config: read_config(live.config.as_deref(), &live.all_settings())?,
        size_bytes: live.size,
        durability: args.durability.into(),
    };
    refuse_settings_ignored_by_design(&specification.config, &live.all_settings(), &live.design)?;
    let mut progress = CreateProgress::default();
    let created = image::create_with_progress(&args.directory, &specification, &mut |done, all| {
        progress.report_progress(done, all);
    });
    let image_header = created.map_err(|error| image_failure(&args.directory, &error))?;
    let geometry = &image_header.geometry;
    warn_if_disk_space_is_short(&args.directory, geometry.physical_bytes());
    print(&format!(
        "{}: {} exports {} bytes on {} bytes of flash ({} blocks of {} pages of {} bytes), {} bytes of NVRAM; survives a crash of the {}\n",
        args.directory.display(),
        image_header.design,
        u64::from(image_header.logical_pages) * u64::from(geometry.page_bytes),
        geometry.physical_bytes(),
        geometry.blocks(),
        geometry.block_pages(),
        geometry.page_bytes,
        image_header.nvram_words * 8,
        image_header.durability.name()
    ))?;
    Ok(Outcome::Done)
}

/// Progress display of the creation of a device image: prints, at most every two seconds, how many MiB of metadata have
/// been written.
struct CreateProgress {
    /// Time at which the last line of progress was printed.
    last_report_time: Instant,
}

impl Default for CreateProgress {
    fn default() -> Self {
        Self { last_report_time: Instant::now() }
    }
}

impl CreateProgress {
    /// Time between two lines of progress.
    const IMAGE_PROGRESS_LINE_INTERVAL: Duration = Duration::from_secs(2);

    /// Prints how many of `all` bytes of metadata are written, if the last line of progress is long enough ago.
    fn report_progress(&mut self, done: u64, all: u64) {
        if self.last_report_time.elapsed() >= Self::IMAGE_PROGRESS_LINE_INTERVAL {
            self.last_report_time = Instant::now();
            print_message(&format!("writing metadata: {} of {} MiB", done >> 20, all >> 20));
        }
    }
}

/// Warns if the file system has less free space than the full flash of an image needs. An image occupies space only as
/// it is written, so the lack would otherwise show late.
fn warn_if_disk_space_is_short(directory: &Path, flash_bytes: u64) {
    // If the operating system does not report the free space, there is no warning.
    let Ok(disk) = rustix::fs::statvfs(directory) else { return };
    let free_bytes = disk.f_bavail * disk.f_frsize;
    if free_bytes < flash_bytes {
        print_message(&format!(
            "note: the image takes up to {flash_bytes} bytes when its flash is full, and its file system has \
             {free_bytes} left; writes of clients fail with ENOSPC when the file system is full"
        ));
    }
}

/// Makes the failure of a command on an image: exit status 2 if the command asks for something impossible, else 1.
pub(crate) fn image_failure(directory: &Path, error: &ImageError) -> Failure {
    let message = error.message_about(directory);
    if error.is_caused_by_request() {
        Failure::of_usage(message)
    } else {
        Failure::of_run_with_message(message)
    }
}

/// Executes the command `repair`: repairs the image of a live device; exit status 3 if logical pages are lost or damage
/// is left.
pub(crate) fn repair(args: &RepairArgs) -> Result<Outcome, Failure> {
    let report = image::repair(&args.directory, args.to.as_deref())
        .map_err(|error| image_failure(&args.directory, &error))?;
    let place = args.to.as_deref().unwrap_or(&args.directory).display();
    let mut text = String::new();
    for finding in report.sentences() {
        let _ = writeln!(text, "{place}: {finding}");
    }
    let _ = writeln!(
        text,
        "{place}: repaired metadata records: {}; flash pages read: {}; lost logical pages: {}",
        report.metadata_repairs.rewritten_copies,
        report.verified_pages,
        report.lost_pages.len()
    );
    print(&text)?;
    if report.leaves_damage() { Ok(Outcome::Partial) } else { Ok(Outcome::Done) }
}

/// Executes the command `copy`: copies the image of a live device, perhaps to another size or design.
pub(crate) fn copy(args: &CopyArgs) -> Result<Outcome, Failure> {
    let changes = ImageCopyOptions {
        size_bytes: args.size,
        design: args.design.clone(),
        settings: args.settings.clone(),
        skips_lost_pages: args.leave_lost_out,
    };
    let report = image::copy(&args.from, &args.to, &changes, &mut copy_progress_callback())
        .map_err(|error| image_failure(&args.from, &error))?;
    let to = args.to.display();
    let mut text = String::new();
    for sentence in report.sentences() {
        let _ = writeln!(text, "{to}: {sentence}");
    }
    let lost = match report.lost_pages.len() {
        0 => String::new(),
        count => format!("; lost logical pages left out: {count}"),
    };
    let _ = writeln!(
        text,
        "{to}: {} exports {} bytes; {} logical pages were copied{lost}",
        report.design, report.size_bytes, report.copied_pages
    );
    print(&text)?;
    Ok(Outcome::Done)
}

/// Returns a function that prints, at most every two seconds, how many logical pages of an image have been copied.
fn copy_progress_callback() -> impl FnMut(u64, u64) {
    let mut last_report = Instant::now();
    move |done, all| {
        if last_report.elapsed() >= CreateProgress::IMAGE_PROGRESS_LINE_INTERVAL {
            last_report = Instant::now();
            print_message(&format!("copying: {done} of {all} logical pages"));
        }
    }
}

/// Executes the command `resize`: makes the image of a live device larger in its place.
pub(crate) fn resize(directory: &Path, size_bytes: u64) -> Result<Outcome, Failure> {
    let resized = image::resize(directory, size_bytes, &mut copy_progress_callback())
        .map_err(|error| image_failure(directory, &error))?;
    let done = match resized {
        Some(report) => format!("{} logical pages were copied", report.copied_pages),
        None => "as before; nothing was changed".into(),
    };
    print(&format!("{}: exports {size_bytes} bytes; {done}\n", directory.display()))?;
    Ok(Outcome::Done)
}

/// Executes the command `upgrade`: converts an image of an earlier format version to the present one.
pub(crate) fn upgrade(directory: &Path) -> Result<Outcome, Failure> {
    let image_header = image::upgrade(directory).map_err(|error| image_failure(directory, &error))?;
    print(&format!(
        "{}: upgraded to format version {} (design {})\n",
        directory.display(),
        image::layout::FORMAT_VERSION,
        image_header.design
    ))?;
    Ok(Outcome::Done)
}

/// Executes the command `check`: audits the image of a live device. The exit statuses are those of a file-system check,
/// unlike those of other commands.
pub(crate) fn check(directory: &Path) -> ExitCode {
    let report = match image::audit(directory) {
        Ok(report) => report,
        Err(error) => {
            image_failure(directory, &error).print();
            // An image that has lost one of its files is damaged.
            return ExitCode::from(if matches!(error, ImageError::MissingFile { .. }) { 2 } else { 3 });
        }
    };
    let mut text = String::new();
    for finding in &report.findings {
        let _ = writeln!(text, "{}: {finding}", directory.display());
    }
    let verdict = match report.verdict {
        AuditVerdict::Clean => "clean",
        AuditVerdict::Unclean if report.was_closed_cleanly => {
            "consistent, but some metadata has only one intact copy"
        }
        AuditVerdict::Unclean => "not closed; consistent after recovery",
        AuditVerdict::Corrupt => "corrupt",
    };
    let AuditReport {
        verified_pages,
        torn_pages,
        repairable_metadata_copies: repaired,
        unsafe_shutdowns,
        ..
    } = report;
    // If records are damaged, nothing can be concluded from them.
    let mapped = match report.mapped_pages {
        Some(pages) => format!("{pages} logical pages hold data"),
        None => "not recovered, so what the logical pages hold is not known".into(),
    };
    let _ = writeln!(
        text,
        "{}: {verdict} ({verified_pages} pages verified, {torn_pages} left half programmed by a crash of the server \
         machine, {repaired} metadata records intact in only one of their two copies, {mapped}, {unsafe_shutdowns} \
         unsafe shutdowns)",
        directory.display(),
    );
    if let Some(next_step) = next_step_after_check(&report, directory) {
        let _ = writeln!(text, "{}: {next_step}", directory.display());
    }
    if let Err(failure) = print(&text) {
        failure.print();
        return ExitCode::from(3);
    }
    ExitCode::from(match report.verdict {
        AuditVerdict::Clean => 0,
        AuditVerdict::Unclean => 1,
        AuditVerdict::Corrupt => 2,
    })
}

/// Returns a text that tells the user of a damaged image which command can help; `None` if none is needed.
fn next_step_after_check(report: &AuditReport, directory: &Path) -> Option<String> {
    match report.verdict {
        AuditVerdict::Unclean if report.was_closed_cleanly => Some(format!(
            "next: `wearwell repair {} --in-place` rewrites the damaged copies; opening the image rewrites only those \
             that it reads",
            directory.display()
        )),
        AuditVerdict::Unclean if report.repairable_metadata_copies > 0 => Some(format!(
            "next: opening the image recovers it; the copies that it does not read may be damaged or only older, and \
             `wearwell repair {} --in-place` rewrites them, too",
            directory.display()
        )),
        AuditVerdict::Clean | AuditVerdict::Unclean => None,
        AuditVerdict::Corrupt => Some(next_step_for_corrupt_image(report, directory)),
    }
}

/// Returns a text that tells the user of a corrupt image which commands can help (repair or rescue).
fn next_step_for_corrupt_image(report: &AuditReport, directory: &Path) -> String {
    let directory = directory.display();
    if !report.lost_pages.is_empty() && report.findings.len() == report.lost_pages.len() {
        return format!(
            "next: restore the image from a copy, or write or trim the lost pages anew; `wearwell copy {directory} NEW \
             --leave-lost-out` makes an image in which they read as zeros"
        );
    }
    if report.mapped_pages.is_some() {
        return format!(
            "next: `wearwell repair {directory} --to NEW` makes a repaired copy and lists what is lost in it; or restore \
             the image from a copy"
        );
    }
    if report.may_be_rescued {
        return format!(
            "next: restore the image from a copy, or try to read what is left with `wearwell serve --image {directory} \
             --rescue`"
        );
    }
    "next: restore the image from a copy, unless a line above names another way".into()
}
