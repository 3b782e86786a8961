//! Experiments that remove a suspected cause of a difference between our results and the Remap-SSD paper.
//!
//! Each changes one thing in an experiment of the catalogue, and is named after the change. Two causes exist only on
//! the scaled-down device. An erase takes 5 ms while programming a superblock takes 32 ms (512 ms at full size), and
//! segments waste 9 % of the NVRAM (2.3 % in the paper). Most experiments are run only scaled down, because they
//! concern shares of time and space that are the same at full size. Experiments about differences that exist at full
//! size are run at both sizes.

use super::{
    Experiment, ExperimentConditions, ExperimentSize, GENERATED_LOADS, LARGE_DRIVE_REVERSE_MAP_MB,
    REVERSE_MAP_KINDS, REVERSE_MAP_MB, RequestSource, SQLITE_TESTS, request_source_of_load,
};
use crate::experiment::ExperimentWork;

/// Setting of the erase time for the scaled-down device: superblocks have a sixteenth of the pages, so an erase takes a
/// sixteenth of 5 ms.
const SCALED_ERASE_TIME_SETTING: &str = "device.erase_us=312.5";
/// Setting of the erase time for the scaled-down drive of the Remap-SSD paper's Figure 6, whose superblocks have a 32nd
/// of the pages: a 32nd of 5 ms.
const LARGE_DRIVE_ERASE_TIME_SETTING: &str = "device.erase_us=156.25";
/// Setting of the default program time of the SSD emulator FEMU; the Remap-SSD paper states 500 us.
const FEMU_PROGRAM_TIME_SETTING: &str = "device.program_us=200";
/// Factor by which the scaled-down device's NVRAM is enlarged, so that entries can use as much of it as in the
/// Remap-SSD paper. Segments of the scaled-down device waste 9 % of the NVRAM, those of the paper 2.3 %.
const USABLE_NVRAM_SIZE_FACTOR: f64 = 0.977 / 0.91;

/// Returns variants of experiments of `catalogue`. Each changes one thing that may cause a difference between our
/// results and the Remap-SSD paper's.
pub fn difference_cause_experiments(
    conditions: &ExperimentConditions,
    catalogue: &[Experiment],
) -> Vec<Experiment> {
    let causes = DifferenceCauseExperiments { conditions, catalogue };
    let both_sizes = [causes.fewer_duplicates_experiments(), causes.nvram_size_experiments()].concat();
    match conditions.size {
        ExperimentSize::Full => both_sizes,
        ExperimentSize::Quick => [
            both_sizes,
            causes.gc_difference_experiments(),
            causes.nvram_entry_capacity_experiments(),
            causes.mapping_log_scan_cost_experiments(),
            causes.large_drive_experiments(),
            causes.sqlite_cause_experiments(),
            causes.f2fs_cause_experiments(),
        ]
        .concat(),
    }
}

/// Makes experiments that repeat those for the Remap-SSD paper and remove one suspected cause of a difference between
/// our results and the paper's.
struct DifferenceCauseExperiments<'a> {
    /// Size, seed and traces of the experiments.
    conditions: &'a ExperimentConditions,
    /// All experiments for the Remap-SSD paper, of which some are repeated with a change.
    catalogue: &'a [Experiment],
}

impl DifferenceCauseExperiments<'_> {
    /// Returns a copy of the experiment `name` of the catalogue, renamed to `new_name`, with additional settings that
    /// override those of the original.
    fn with_changed_settings(&self, name: &str, new_name: &str, settings: &[&str]) -> Experiment {
        let base = self.catalogue.iter().find(|base| base.name == name);
        let mut changed = base.expect("a cause is taken away from an experiment of the catalogue").clone();
        new_name.clone_into(&mut changed.name);
        if let ExperimentWork::Replay { settings: own, .. } = &mut changed.work {
            own.extend(settings.iter().map(|&setting| setting.to_owned()));
        }
        changed
    }

    /// Returns a changed experiment as [`Self::with_changed_settings`] does, with a load of the Remap-SSD paper's
    /// section 5.2 in which the number of distinct contents is `contents_per_logical_page` times the logical pages.
    fn with_distinct_content_ratio(
        &self,
        name: &str,
        new_name: &str,
        contents_per_logical_page: f64,
        settings: &[&str],
    ) -> Experiment {
        let of = name.split('/').next().expect("an experiment of a load");
        let source = request_source_of_load(
            of,
            super::scaled_drive(self.conditions).logical_pages,
            contents_per_logical_page,
            self.conditions.seed,
        );
        Experiment { source, ..self.with_changed_settings(name, new_name, settings) }
    }

    /// Returns a changed experiment as [`Self::with_changed_settings`] does, with additional keys for the host model
    /// (file system or database) that generates the requests.
    fn with_host_model_keys(&self, name: &str, new_name: &str, keys: &str, settings: &[&str]) -> Experiment {
        let mut changed = self.with_changed_settings(name, new_name, settings);
        if let RequestSource::Substitute(spec) = &mut changed.source {
            spec.push_str(keys);
        }
        changed
    }

    /// Returns experiments that repeat the loads of section 5.2 with 10 % duplicates as in the Remap-SSD paper: the
    /// number of distinct contents is 0.9 times the logical pages.
    fn fewer_duplicates_experiments(&self) -> Vec<Experiment> {
        GENERATED_LOADS
            .map(|of| {
                self.with_distinct_content_ratio(&format!("{of}/opt"), &format!("{of}/opt-10"), 0.9, &[])
            })
            .into()
    }

    /// Returns experiments that repeat three rows of the Remap-SSD paper with other NVRAM sizes. For row RM-29, two
    /// segment sizes are compared with enough NVRAM for every bind (mapping of a further LPN to a stored page), so that
    /// runs differ only in the segment size. For rows RM-33 and RM-37, one run has half the NVRAM, whose GC then
    /// reduces the programs that remaps save, and one has enough NVRAM for every remap.
    fn nvram_size_experiments(&self) -> Vec<Experiment> {
        let share =
            |full: f64, quick: f64| if self.conditions.size == ExperimentSize::Full { full } else { quick };
        let roomy = format!("remap.size_mib={}", share(160.0, 20.0));
        let (half, ample) = (share(40.0, 2.5), share(160.0, 10.0));
        let sized = |mib: f64| format!("remap.size_mib={mib}");
        vec![
            self.with_changed_settings("segment/1024", "segment/roomy-1024", &[&roomy]),
            self.with_changed_settings("segment/8192", "segment/roomy-8192", &[&roomy]),
            self.with_changed_settings("fillseq/segments", "fillseq/half-segments", &[&sized(half)]),
            self.with_changed_settings("fillseq/segments", "fillseq/roomy-segments", &[&sized(ample)]),
        ]
    }

    /// Returns experiments that test causes of the differences in rows RM-15 and RM-16 of the Remap-SSD paper
    /// (performance and write amplification of an ideal reverse map). Each generated load runs on a drive that is not
    /// filled beforehand and so has a tenth more spare space. The file server also runs with as many distinct contents
    /// as its own files have pages: 0.7 * 0.9 / 4 of the logical pages.
    fn gc_difference_experiments(&self) -> Vec<Experiment> {
        let unfilled = |of: &str, scheme: &str| {
            let new_name = format!("{of}/unfilled-{scheme}");
            self.with_changed_settings(&format!("{of}/{scheme}"), &new_name, &["precondition.filled=false"])
        };
        let mut all = Vec::new();
        for of in GENERATED_LOADS {
            all.extend([unfilled(of, "noremap"), unfilled(of, "opt")]);
        }
        let own = 0.7 * 0.9 / 4.0;
        all.push(self.with_distinct_content_ratio("fileserver/opt", "fileserver/own-contents-opt", own, &[]));
        all
    }

    /// Returns experiments that test causes of the differences in rows RM-17, 18, 20 and 21 of the Remap-SSD paper.
    /// Some have NVRAM for as many reverse-map entries as in the paper. The others have a smaller NVRAM, for loads that
    /// bind few pages (map a further LPN to a stored page).
    fn nvram_entry_capacity_experiments(&self) -> Vec<Experiment> {
        let mut all = Vec::new();
        for of in ["oltp", "random writes"] {
            for mb in &REVERSE_MAP_MB[..2] {
                let name = format!("{of}/segments-{mb}");
                all.push(self.with_changed_settings(
                    &name,
                    &format!("{of}/usable-segments-{mb}"),
                    &[&scaled_nvram_size_setting(*mb)],
                ));
            }
        }
        let small = "remap.size_mib=0.9375";
        let own = 0.7 * 0.9 / 4.0;
        all.push(self.with_distinct_content_ratio(
            "fileserver/segments-40",
            "fileserver/own-contents-segments-15",
            own,
            &[small],
        ));
        all.push(self.with_changed_settings(
            "ycsb/segments-40",
            "ycsb/segments-30",
            &["remap.size_mib=1.875"],
        ));
        all
    }

    /// Returns experiments for the Remap-SSD paper's rows RM-20 to RM-22 in which the scan of the mapping log costs
    /// less (or more) relative to the programs of a GC victim: other erase, program and NVRAM read times, and smaller
    /// superblocks.
    fn mapping_log_scan_cost_experiments(&self) -> Vec<Experiment> {
        let mut all = Vec::new();
        for of in GENERATED_LOADS {
            for mb in REVERSE_MAP_MB {
                for (scheme, _) in REVERSE_MAP_KINDS {
                    let room = scaled_nvram_size_setting(mb);
                    let mut settings = vec![SCALED_ERASE_TIME_SETTING, FEMU_PROGRAM_TIME_SETTING];
                    if scheme == "segments" {
                        settings.push(&room);
                    }
                    let (name, new_name) =
                        (format!("{of}/{scheme}-{mb}"), format!("{of}/fast-{scheme}-{mb}"));
                    all.push(self.with_changed_settings(&name, &new_name, &settings));
                }
            }
        }
        let of_random = |cause: &str, scheme: &str, setting: &str| {
            let new_name = format!("random writes/{cause}-{scheme}-120");
            self.with_changed_settings(&format!("random writes/{scheme}-120"), &new_name, &[setting])
        };
        for (scheme, _) in REVERSE_MAP_KINDS {
            all.push(of_random("to-scale", scheme, SCALED_ERASE_TIME_SETTING));
            all.push(of_random("four-die", scheme, "device.superblock_planes=4"));
        }
        for (scheme, _) in &REVERSE_MAP_KINDS[..2] {
            all.push(of_random("slow-nvram", scheme, "timing.nvram_read_ns=100"));
        }
        all
    }

    /// Returns experiments for rows RM-24 to RM-27 of the Remap-SSD paper, on the drive of its Figure 6. Each changes
    /// one thing: erase times in proportion to the block size, an empty NVRAM at first, an ideal reverse map with as
    /// much NVRAM as the segments have, writes to NVRAM that take no time, or another share of duplicates.
    fn large_drive_experiments(&self) -> Vec<Experiment> {
        let mut all = Vec::new();
        for trace in ["homes", "mail"] {
            let changed = |name: &str, cause: &str, settings: &[&str]| {
                self.with_changed_settings(
                    &format!("{trace}/{name}"),
                    &format!("{trace}/{cause}-{name}"),
                    settings,
                )
            };
            for (scheme, _) in REVERSE_MAP_KINDS {
                let name = format!("{scheme}-640");
                all.push(changed(&name, "to-scale", &[LARGE_DRIVE_ERASE_TIME_SETTING]));
                all.push(changed(&name, "unbound", &["precondition.bound_share=0"]));
            }
            for mb in &LARGE_DRIVE_REVERSE_MAP_MB[..2] {
                let room = format!("remap.size_mib={}", f64::from(*mb) / 32.0);
                all.push(self.with_changed_settings(
                    &format!("{trace}/opt"),
                    &format!("{trace}/opt-{mb}"),
                    &[&room],
                ));
            }
            let free = ["timing.nvram_write_ns=0"];
            all.extend([changed("opt", "free-stores", &free), changed("segments-640", "free-stores", &free)]);
            for percent in [33, 60, 92] {
                for scheme in ["noremap", "opt"] {
                    let mut other = changed(scheme, &format!("duplicates-{percent}"), &[]);
                    if let RequestSource::Substitute(spec) = &mut other.source {
                        let (own, share) =
                            (if trace == "homes" { "0.33" } else { "0.92" }, f64::from(percent) / 100.0);
                        *spec = spec.replace(&format!("duplicates={own}"), &format!("duplicates={share}"));
                    }
                    all.push(other);
                }
            }
        }
        all
    }

    /// Returns `SQLite` experiments for the Remap-SSD paper's rows RM-34 and RM-36: NVRAM with space for every remap, a
    /// host with one request in flight (a single thread), and superblocks of the paper's size with transactions of one
    /// value and of sixteen.
    fn sqlite_cause_experiments(&self) -> Vec<Experiment> {
        let (room, single) = ("remap.size_mib=10", "replay.queue_depth=1");
        let mut all = Vec::new();
        for (scheme, _) in REVERSE_MAP_KINDS {
            let (random, sequential) = (format!("fillrandom/{scheme}"), format!("fillseq/{scheme}"));
            all.push(self.with_changed_settings(&random, &format!("fillrandom/single-{scheme}"), &[single]));
            all.push(self.with_changed_settings(
                &sequential,
                &format!("fillseq/single-roomy-{scheme}"),
                &[single, room],
            ));
        }
        let superblocks =
            ["device.pages_per_block=1024", "device.blocks_per_plane=36", "remap.segment_bytes=1024"];
        for test in SQLITE_TESTS {
            let (name, new_name) = (format!("{test}/segments"), format!("{test}/large-superblocks"));
            all.push(self.with_changed_settings(&name, &new_name, &superblocks));
        }
        let batches = ("fillrandom/segments", "fillrandom/large-transactions");
        all.push(self.with_host_model_keys(batches.0, batches.1, ",batch=16", &superblocks));
        all
    }

    /// Returns F2FS experiments for the Remap-SSD paper's rows RM-39 to RM-42: a host with one request in flight, the
    /// same host with 5 ms of its own work per request, NVRAM with space for every remap, and the paper's second load.
    fn f2fs_cause_experiments(&self) -> Vec<Experiment> {
        let mut all = Vec::new();
        for scheme in ["noremap", "segments", "nlog", "flog"] {
            let name = format!("f2fs/{scheme}");
            all.push(self.with_changed_settings(
                &name,
                &format!("f2fs/single-{scheme}"),
                &["replay.queue_depth=1"],
            ));
        }
        for scheme in ["noremap", "segments"] {
            let slow_host = ["replay.queue_depth=1", "timing.controller_overhead_us=5000"];
            all.push(self.with_changed_settings(
                &format!("f2fs/{scheme}"),
                &format!("f2fs/slow-host-{scheme}"),
                &slow_host,
            ));
        }
        let room = ["remap.size_mib=10"];
        all.push(self.with_changed_settings("f2fs/segments", "f2fs/roomy-segments", &room));
        all.push(self.with_host_model_keys("f2fs/noremap", "f2fs/ycsb-noremap", ",load=ycsb", &[]));
        all.push(self.with_host_model_keys("f2fs/segments", "f2fs/ycsb-segments", ",load=ycsb", &[]));
        all.push(self.with_host_model_keys("f2fs/segments", "f2fs/ycsb-roomy-segments", ",load=ycsb", &room));
        all
    }
}

/// Returns the setting of the NVRAM size with which the scaled-down device has space for as many reverse-map entries,
/// in proportion to its capacity, as the drive of the Remap-SSD paper has with `mb` MB.
fn scaled_nvram_size_setting(mb: u32) -> String {
    let share = if mb < REVERSE_MAP_MB[2] { USABLE_NVRAM_SIZE_FACTOR } else { 1.0 };
    format!("remap.size_mib={}", (f64::from(mb) / 16.0 * share * 1000.0).round() / 1000.0)
}
