"""Fields of a run record. Made by python/records.py from docs/schema/runs.json: change that, and run it again."""

from __future__ import annotations

from ._section import Section


class BytesRecord(Section):
    """What was written, in bytes: of pages a write that fills a part of one counts as a whole."""

    _optional = frozenset({
        "ram_of_4k_map",
        "write_amplification",
    })

    buffered: int
    """Bytes still in the write buffer at the end: written by the host, and not programmed. 0 unless
    `buffer.keep_at_end`, or the loss of power behind the last request, leaves them there."""
    completed_page_writes: int
    """Those of them whose page held data: it was read first (read-modify-write)."""
    host_written: int
    """Bytes of the host's write requests."""
    mapping_unit: int
    """The smallest piece that the map can place, bytes: the device's page."""
    partial_page_writes: int
    """Page writes that left the write buffer, or came without one, with a part of their page: each programs a
    whole page."""
    programmed: int
    """Bytes of all page programs."""
    ram_of_4k_map: int | None
    """RAM of a controller whose map places 4 KiB, bytes, beside `RunRecord::ram_bytes`; absent where the
    device's pages are not larger."""
    write_amplification: float | None
    """`programmed / host_written`; absent if the host wrote nothing."""


class BufferConfig(Section):
    """Write buffer."""

    _optional = frozenset({
        "pages",
    })

    keep_at_end: bool
    """What is in the buffer behind the last request stays there: it is neither programmed nor counted."""
    pages: int | None
    """Pages; 0 = none. Absent: four for each plane where a page is larger than 4 KiB, which joins small
    writes to neighbours; else none."""
    policy: str
    """Order of eviction."""


class ContentConfig(Section):
    """Content of writes that come without any."""

    _optional = frozenset({
        "model",
    })

    model: str | None
    """A content model such as `unique` or `dup:share=0.2,theta=0.9`."""


class DeltaConfig(Section):
    """The delta design."""

    _optional = frozenset({
        "cache_entries",
        "heat_entries",
        "journal_pages",
        "max_ratio",
    })

    area_share: float
    """Share of the spare space that delta pages may use."""
    cache_entries: int | None
    """Entries of the cached mapping table, with tables on flash. Absent: all of it in capacitor-backed
    RAM."""
    heat_entries: int | None
    """Entries of the table of access counts. Absent: `cache_entries`, or one for 16 logical pages."""
    hot_accesses: int
    """Accesses that make a page hot."""
    journal_pages: int | None
    """Pages of a journal of map updates, after which it is merged with the table. Absent: no journal."""
    max_ratio: float | None
    """Page share per delta up to which deltas are worth it. Absent: 1 - max(tR, transfer, encode) / tPROG."""
    open_pages: int
    """Pages of the temp buffer that are filled at the same time."""
    scan_entries: int
    """Deltas that such a look visits, about."""
    scan_interval_writes: int
    """Host writes between two looks for write-cold pages; 0 = never."""


class DeviceConfig(Section):
    """Layout, timing and capacity of the device; what is absent comes from the preset."""

    _optional = frozenset({
        "blocks_per_plane",
        "channel_mb_per_s",
        "channels",
        "dies_per_channel",
        "endurance_cycles",
        "erase_us",
        "factory_bad_share",
        "fit",
        "logical_pages",
        "over_provisioning",
        "over_provisioning_of",
        "page_bytes",
        "pages_per_block",
        "planes_per_die",
        "preset",
        "program_us",
        "read_us",
        "reserve_blocks",
        "spare_bytes",
        "striping",
        "superblock_planes",
        "wear_out",
    })

    blocks_per_plane: int | None
    """Blocks per plane."""
    channel_mb_per_s: float | None
    """Channel rate, MB/s."""
    channels: int | None
    """Channels."""
    dies_per_channel: int | None
    """Dies per channel."""
    endurance_cycles: int | None
    """Rated program/erase cycles."""
    erase_us: float | None
    """tBERS, microseconds."""
    factory_bad_share: float | None
    """Share of blocks that are bad from the factory, 0 to 0.2; drawn by the seed."""
    fit: float | None
    """Resize the device so that the workload's footprint is this share of the exported pages, (0, 1]. `auto`:
    1."""
    logical_pages: int | None
    """Exported pages, instead of over-provisioning."""
    over_provisioning: float | None
    """Spare space, as the share that `over_provisioning_of` says."""
    over_provisioning_of: str | None
    """`logical`: spare / logical (0.15 exports 87 % of the flash); `physical`: spare / physical (0.15 exports
    85 %)."""
    page_bytes: int | None
    """Data bytes per page."""
    pages_per_block: int | None
    """Pages per block."""
    planes_per_die: int | None
    """Planes per die."""
    preset: str | None
    """Name of a preset; `auto` (the default) is a small drive sized to the workload's footprint."""
    program_us: float | None
    """tPROG, microseconds."""
    read_us: float | None
    """tR, microseconds."""
    reserve_blocks: float | None
    """Blocks of each plane that are neither exported nor counted as over-provisioning. Absent: 0, but on a
    device that is resized what GC keeps free and open, so that over-provisioning acts as it says however
    small the device is."""
    spare_bytes: int | None
    """Spare bytes per page."""
    striping: str | None
    """The order in which successive writes go round channels, dies and planes. Absent: `plane-first` with
    multi-plane programs, which need neighbours on two planes of a die, else `channel-first`."""
    superblock_planes: int | None
    """Planes that form a superblock; 1 = plain blocks."""
    wear_out: bool | None
    """Blocks fail at the end of their rated cycles instead of wearing on."""


class DftlConfig(Section):
    """The DFTL design."""

    _optional = frozenset({
        "cache_entries",
    })

    cache_entries: int | None
    """Entries of the cached mapping table. Absent: `mapping.cache_entries`."""


class GcConfig(Section):
    """Garbage collection."""

    _optional = frozenset({
        "background_share",
        "d",
        "free_share",
        "low_blocks",
        "metadata",
        "metadata_share",
    })

    background_share: float | None
    """Free share of a pool below which idle time is used to collect; 0 = no background GC."""
    d: int | None
    """Blocks that `d-choices` looks at."""
    free_share: float | None
    """The same as a share of the pool's blocks; the larger of both counts."""
    low_blocks: int | None
    """A pool at or below this many free blocks is collected before a write."""
    metadata: str | None
    """What happens to blocks of metadata. Absent: what the design says."""
    metadata_share: float | None
    """For `when-empty`: the share of all blocks above which metadata is collected all the same."""
    policy: str
    """Victim policy."""
    ties: str
    """Which of the blocks with the fewest valid pages is collected."""


class GeckoConfig(Section):
    """Logarithmic Gecko."""

    _optional = frozenset({
        "parts",
    })

    merge: str
    """When runs are merged."""
    parts: int | None
    """Parts of a block's bitmap (S). Absent: parts of 32 pages."""
    size_ratio: int
    """Size ratio of levels (T)."""


class LifetimeConfig(Section):
    """Lifetime management."""

    epoch_s: int
    """Length of an epoch, seconds; with `best`, which has no clock, `epoch_writes` says it."""
    epoch_writes: int
    """Length of an epoch with `best`, page writes of the host."""
    fitted_energy: bool
    """Take twice the stated energy for compression, with which the paper's break-even comes out; else as
    stated."""
    schemes: str
    """Which schemes may be used."""
    target_years: float
    """Years that the device shall last from the first measured request on."""
    verify_on_hit: bool
    """Read and compare before deduplicating."""


class MappingConfig(Section):
    """The map on flash; what is absent is the design's own."""

    _optional = frozenset({
        "cache_entries",
        "cached_nodes",
        "checkpoints",
        "directory",
        "dirty_share",
        "identification",
    })

    cache_entries: int | None
    """Entries of the cache. Absent: 1/32 of the logical pages."""
    cached_nodes: int | None
    """Inner nodes of a tree in RAM. Absent: all."""
    checkpoints: bool | None
    """Write dirty entries that were not changed for long."""
    directory: str | None
    """How the places of translation pages are known."""
    dirty_share: float | None
    """Share of the cache that may be dirty; 1 = all."""
    identification: str | None
    """When the page that a write replaces is called invalid."""


class PartsConfig(Section):
    """Parts by name; what is absent is the design's own."""

    _optional = frozenset({
        "content",
        "map",
        "reverse_map",
        "survives",
        "validity",
    })

    content: list[str] | None
    """Content mechanisms, all of them: a list, or names joined by commas or plus signs; `none` for no
    mechanism."""
    map: str | None
    """How the L2P table is kept."""
    reverse_map: str | None
    """Who refers to a shared page. Absent: the design's own; `ideal` where the design shares nothing."""
    survives: str | None
    """What keeps acknowledged data over a loss of power. Absent: the design's own; where content, map or
    reverse map are exchanged, what serves such parts in the papers, else `battery`."""
    validity: str | None
    """Page validity; all but `ram` need a map on flash."""


class PreconditionConfig(Section):
    """State of the device before the first measured request."""

    _optional = frozenset({
        "bound_share",
        "filled",
        "overwrite",
        "share",
        "trace",
    })

    bound_share: float | None
    """At last, random logical pages are bound to others until this share of the entries that `remap.size_mib`
    holds is valid (RM, section 5.2: 0.7). Default: none."""
    filled: bool | None
    """For `aged`: every exported page is written once before (default no)."""
    mode: str
    """How."""
    overwrite: float | None
    """Random writes after the first GC, in units of the physical capacity. Defaults: `steady` 1, `random` 0,
    `constructed` and `in-use` 0.1."""
    share: float | None
    """For `aged` without a trace: the share of the requests that ages, (0, 1) (default 0.5)."""
    trace: str | None
    """For `aged`: a trace to age with. Absent: the first part of the replayed trace itself."""


class RecoveryConfig(Section):
    """Loss of power; what is absent is the design's own."""

    _optional = frozenset({
        "after_requests",
        "by",
    })

    after_requests: int | None
    """Power is lost behind so many measured requests, the recovery is executed and reported, and the run goes
    on. All counters go on, so that what the recovery and the corrections after it cost is part of the run."""
    after_run: bool
    """Power is lost behind the last request, and the recovery is executed and reported."""
    blocks: str
    """What is read of each block where a map in RAM is rebuilt from flash."""
    by: str | None
    """What makes the map survive."""


class RecycleConfig(Section):
    """The recyclable design."""

    _optional = frozenset({
        "entries",
        "refresh_age_programs",
    })

    alpha: float
    """Growth of popularity, 0.10 to 0.15."""
    beta: float
    """Decay per version, 0.15 to 0.20."""
    count_comparisons: bool
    """Count comparisons."""
    entries: int | None
    """Entries of the store. Absent: 131072, or 1.25 % of the device's pages if that is less (the paper's
    ratio)."""
    policy: str
    """What the fingerprint store keeps."""
    refresh_age_programs: int | None
    """Flash programs after which a page is too old to be revived. Absent: pages do not age."""
    verify_on_hit: bool
    """Read and compare before reviving."""
    window: int
    """Window of fast loading, logical pages on each side."""


class RemapConfig(Section):
    """The remap design."""

    _optional = frozenset({
        "index_entries",
        "index_share",
        "size_mib",
    })

    atomic_commands: bool
    """A remap command of several pages is atomic; entries take 24 bytes instead of 16."""
    dedup: bool
    """Deduplicate host writes."""
    index_entries: int | None
    """Entries of the content index; absent = by `index_share`."""
    index_share: float | None
    """Entries of the content index per exported page, above 0 to 1, at least 131,072 of them; absent = one
    for every stored page, on the design wearwell one for 64 exported pages."""
    reverse_map: str
    """Who refers to a page."""
    segment_bytes: int
    """Bytes of an NVRAM segment."""
    size_mib: float | None
    """Size of the NVRAM or of the log on flash, MiB. Absent: the paper's ratio of 80 MiB to 36 GiB."""
    sparse_counts: bool
    """Keep counts only of shared pages instead of four bits per page."""
    verify_on_hit: bool
    """Read and compare before binding."""


class ReplayConfig(Section):
    """How requests are issued."""

    _optional = frozenset({
        "queue_depth",
        "requests",
        "seed",
        "time_scale",
        "timeline_cells",
    })

    addresses: str
    """How trace addresses meet the device."""
    arrival: str
    """When requests come."""
    queue_depth: int | None
    """Requests in flight in closed loop (default 32)."""
    requests: int | None
    """Stop after this many requests."""
    seed: int | None
    """Seed of everything random (default 1)."""
    time_scale: float | None
    """Trace times are multiplied by this (default 1)."""
    timeline_cells: int | None
    """Cells of the block map of a timeline, which is recorded with at most as many; without, none is."""
    zeroes: str
    """What a write-zeroes request is."""


class TimingConfig(Section):
    """How time is modelled."""

    _optional = frozenset({
        "gc_backlog_ops",
    })

    blocking_gc: bool
    """A write waits for the GC it triggered."""
    buffered_writes: int
    """Writes that may be acknowledged before they are programmed."""
    compress_us: float
    """Compressing a page, microseconds (IL, section IV)."""
    controller_overhead_us: float
    """Time outside the flash per request, microseconds."""
    decompress_us: float
    """Decompressing a page, microseconds; our assumption, as IL leaves reads out."""
    delta_codec_units: int
    """Units that make and apply deltas (DF, section 3.3.2: one processor); 0 = as many as there are
    requests."""
    delta_decode_us: float
    """Applying a delta, microseconds (DF, table 1, at 619 MHz)."""
    delta_encode_us: float
    """Making a delta, microseconds (DF, table 1, at 619 MHz)."""
    gc_backlog_ops: int | None
    """Background operations queued per die after which they go before host writes. Absent: they do while no
    page of the die is erased, and in shares before each host write while few are."""
    gc_holds_reads: bool
    """From then on they go before host reads too."""
    gc_yields: bool
    """Background work yields to host work."""
    hash_us: float
    """Hash and look-up of content-aware designs, once per request that hashed a page (the unit hashes the
    next page while one is programmed), microseconds (LX, RM: 32)."""
    independent_planes: bool
    """Planes work independently."""
    mode: str
    """Engine."""
    multi_plane: bool
    """Multi-plane operations."""
    nvram_read_ns: float
    """Reading 64 bytes of NVRAM, nanoseconds (RM, section 5.1). There is one NVRAM: requests wait for each
    other there."""
    nvram_write_ns: float
    """Storing 64 bytes of NVRAM, nanoseconds (RM, section 5.1)."""
    read_priority: bool
    """Host reads before writes."""
    suspend: bool
    """Programs and erases are suspended for host reads."""
    suspend_max: int
    """Suspensions per operation at most."""
    suspend_overhead_us: float
    """Cost of a suspension, microseconds."""


class ValidityConfig(Section):
    """Page validity; what is absent is the design's own."""

    _optional = frozenset({
        "kind",
    })

    batch: bool
    """For `bitmap`: one write takes all reports that wait for its page."""
    kind: str | None
    """Where it is kept, and how."""


class WearConfig(Section):
    """Wear leveling."""

    dual_pool_gap: int
    """Threshold of dual-pool leveling, erases; 0 = off. It takes the place of static leveling."""
    dynamic: bool
    """Open free blocks by wear."""
    scan: bool
    """Find them by reading spare areas round and round, one per flash write, instead of a table in RAM."""
    static_gap: int
    """Move blocks this many erases behind the most worn one; 0 = off."""


class Config(Section):
    """A configuration as written: what is absent keeps its default."""

    _sections = {
        "buffer": BufferConfig,
        "content": ContentConfig,
        "delta": DeltaConfig,
        "device": DeviceConfig,
        "dftl": DftlConfig,
        "gc": GcConfig,
        "gecko": GeckoConfig,
        "lifetime": LifetimeConfig,
        "mapping": MappingConfig,
        "parts": PartsConfig,
        "precondition": PreconditionConfig,
        "recovery": RecoveryConfig,
        "recycle": RecycleConfig,
        "remap": RemapConfig,
        "replay": ReplayConfig,
        "timing": TimingConfig,
        "validity": ValidityConfig,
        "wear": WearConfig,
    }

    buffer: BufferConfig
    """Write buffer."""
    content: ContentConfig
    """Content of writes that come without any."""
    delta: DeltaConfig
    """Options of the delta design."""
    device: DeviceConfig
    """Layout, timing and capacity."""
    dftl: DftlConfig
    """Options of the DFTL design."""
    gc: GcConfig
    """Garbage collection."""
    gecko: GeckoConfig
    """Logarithmic Gecko."""
    lifetime: LifetimeConfig
    """Lifetime management."""
    mapping: MappingConfig
    """Maps on flash."""
    parts: PartsConfig
    """Parts in the place of the design's own."""
    precondition: PreconditionConfig
    """State of the device before the first measured request."""
    recovery: RecoveryConfig
    """Loss of power."""
    recycle: RecycleConfig
    """Recycling of dead pages: `recyclable`, `parts.content=recycle`."""
    remap: RemapConfig
    """Options of the remap design."""
    replay: ReplayConfig
    """How requests are issued."""
    timing: TimingConfig
    """How time is modelled."""
    validity: ValidityConfig
    """Page validity."""
    wear: WearConfig
    """Wear leveling."""


class LayoutRecord(Section):
    """Channels, dies, planes, blocks and pages of a device."""

    blocks_per_plane: int
    """Blocks of a plane."""
    channels: int
    """Channels."""
    dies_per_channel: int
    """Dies of a channel."""
    pages_per_block: int
    """Pages of a block."""
    planes_per_die: int
    """Planes of a die."""


class DeviceRecord(Section):
    """The device of a run."""

    _sections = {
        "layout": LayoutRecord,
    }

    endurance_cycles: int
    """Rated cycles."""
    gc_low_blocks: int
    """Free blocks per pool at or below which GC runs."""
    layout: LayoutRecord
    """How flash is divided."""
    logical_pages: int
    """Exported pages."""
    over_provisioning: float
    """(physical - reserve - logical) / logical."""
    page_bytes: int
    """Data bytes per page."""
    physical_pages: int
    """Physical pages."""
    preset: str
    """Preset."""
    reserve_blocks: float
    """Blocks of each plane that are neither exported nor over-provisioning: what GC keeps free and open. 0
    unless the device was sized to the input."""
    superblock_planes: int
    """Planes per superblock."""


class Latency(Section):
    """One distribution, microseconds."""

    count: int
    """Requests."""
    max: float
    """Largest."""
    mean: float
    """Mean."""
    p50: float
    """Median."""
    p90: float
    """90th percentile."""
    p99: float
    """99th percentile."""
    p999: float
    """99.9th percentile."""
    p9999: float
    """99.99th percentile."""


class LatencyRecord(Section):
    """Latency distributions."""

    _sections = {
        "flush": Latency,
        "read": Latency,
        "write": Latency,
    }

    flush: Latency
    """Flushes: what the host waits for where writes are answered before they are programmed."""
    read: Latency
    """Host reads."""
    write: Latency
    """Host writes."""


class SchemeRecord(Section):
    """For how long a content scheme ran."""

    epochs: int
    """Epochs in which it ran."""
    share_of_writes: float
    """Share of the host's page writes that came in these epochs."""


class LifetimeRecord(Section):
    """Wear, how long the device lasts at this rate, and what was done about it. A year has 365 days."""

    _tables = {
        "schemes": SchemeRecord,
    }

    _optional = frozenset({
        "drive_writes_per_day",
        "host_tb_written_until_worn",
        "scale_to_bytes",
        "scaled_years",
        "years",
        "years_after_first_epoch",
        "years_by_programs",
    })

    drive_writes_per_day: float | None
    """Drive writes a day that use the rated cycles up in five years: the usual rating (DWPD). Absent as TB
    written."""
    elapsed_s: float
    """Time that the measured part took, seconds: the trace's in open loop, else the device's."""
    endurance_used: float
    """Share of the rated cycles that the measured part used."""
    energy_uj_per_page: float
    """Energy of programs, hashing and compression per host page write, microjoules, at IL's powers and times;
    reads and erases are left out, as there."""
    epochs: int
    """Epochs of lifetime management in which requests came; 0 without management."""
    held_s: float
    """Time for which throttling held host writes back, seconds."""
    held_writes: int
    """Host writes held back."""
    host_tb_written_until_worn: float | None
    """Bytes that the host can write until all rated cycles are used, TB (10^12): `physical bytes x cycles /
    write amplification in bytes` over the steady part (over all without one). Absent if no block was erased
    or nothing written."""
    is_from_steady_part: bool
    """Whether that part was steady. If not, `host_tb_written_until_worn`, `years`, `scaled_years` and
    `drive_writes_per_day` are figures of the moment: a longer run of the same load gives others."""
    max_erase_count: int
    """Wear of the most worn block since the device was new."""
    mean_erases_per_block: float
    """Erases per block in the measured part, mean over all blocks."""
    min_erase_count: int
    """Wear of the least worn block."""
    scale_to_bytes: int | None
    """The size of that drive, if one was asked for."""
    scaled_years: float | None
    """Years of a drive of `scale_to_bytes` exported bytes that takes the same bytes per second: it takes
    fewer drive writes, and its write amplification is the same if what is written to it, and where, grows in
    proportion."""
    schemes: dict[str, SchemeRecord]
    """For how long each content scheme ran under lifetime management, by its name in `parts.content`; empty
    without."""
    throttled_epochs: int
    """Those in which writes were throttled."""
    write_until_programmed_us: float
    """Mean response time of host writes until their content is on flash or bound, microseconds. Pages that
    gather in a chunk have the response of the write that completes it. 0 without timing or compression:
    `latency_us.write` says it then."""
    years: float | None
    """Years until then at the rate of host bytes in `elapsed_s`; absent without time."""
    years_after_first_epoch: float | None
    """As `years_by_programs`, from what came after the first epoch of lifetime management, in which nothing
    is known and nothing is done: of five years that epoch is a 500,000th, of a short run a large part. Absent
    without management."""
    years_by_programs: float | None
    """Years by the programs of the whole measured part, also before the first collection."""


class SeriesPoint(Section):
    """Counters at one moment of the run."""

    device_s: float
    """Device time, seconds; 0 without timing."""
    erases: int
    """Erases so far."""
    free_blocks: int
    """Free blocks now."""
    host_bytes: int
    """Bytes of the host's write requests so far."""
    host_page_remaps: int
    """Pages that the host remapped so far."""
    host_page_writes: int
    """Host page writes so far."""
    programs: int
    """Programs so far."""
    recycled_writes: int
    """Recycled writes so far."""
    requests: int
    """Requests so far."""


class RecoveryCost(Section):
    """Flash operations of a recovery or of one of its steps, and their time."""

    page_reads: int
    """Pages read."""
    programs: int
    """Pages programmed."""
    spare_reads: int
    """Spare areas read."""
    time_s: float
    """Time, seconds."""


class RecoveryRecord(Section):
    """A recovery that was executed: operations counted, and priced one after the other."""

    _sections = {
        "total": RecoveryCost,
    }

    _tables = {
        "steps": RecoveryCost,
    }

    battery_programs: int
    """Pages that a battery wrote when power went away."""
    steps: dict[str, RecoveryCost]
    """Steps by name, where the recovery has steps; those that took nothing are absent."""
    total: RecoveryCost
    """All of it, without what a battery wrote."""


class ServiceRecord(Section):
    """How requests came, and how many the drive answered. Absent figures need a timing engine."""

    _optional = frozenset({
        "arrival",
        "mb_per_s",
        "queue_at_end_s",
        "queue_depth",
        "requests_per_s",
    })

    arrival: str | None
    """When requests came, as it was in effect: at the input's times, closed loop or think time."""
    is_overloaded: bool
    """Requests came faster than the drive answers them: latencies are the length of the queue, and grow with
    the run."""
    mb_per_s: float | None
    """Bytes read and written by the host per second of device time, MB/s (10^6)."""
    queue_at_end_s: float | None
    """Seconds from the last arrival to the last answer, where requests come at the input's times."""
    queue_depth: int | None
    """Requests in flight in closed loop."""
    requests_per_s: float | None
    """Requests answered per second of device time (IOPS)."""
    unwritten_page_reads: int
    """Host page reads of pages that were never written, or deallocated: they cost no flash operation.
    Requests that read nothing else are left out of read latencies."""


class Steadiness(Section):
    """How steady the measured part was, and what it wrote there."""

    deviation: float
    """Largest difference of a window from the mean, as a share of it; of the last half without a steady
    part."""
    drive_writes: float
    """Bytes that the host wrote in all of the measured part, as a share of the exported bytes."""
    erases: int
    """Block erases there."""
    from_request: int
    """Requests before the steady part; 0 without one."""
    host_bytes: int
    """Bytes that the host wrote there."""
    host_page_writes: int
    """Host page writes of the steady part, or of all."""
    is_steady: bool
    """The measured part was steady to its end, from `from_request` on."""
    programs: int
    """Page programs there."""
    slope: float
    """Rise of a straight line through the windows, as a share of the mean; likewise."""


class WearHistogram(Section):
    """How many blocks were erased how often since the drive was new; retired blocks are left out."""

    blocks: list[int]
    """Blocks in each bin, at most 40 bins."""
    erases_per_bin: int
    """Width of a bin."""
    first_erases: int
    """Erases of the least worn block, where the first bin begins."""


class TimelineFrame(Section):
    """The blocks at one moment."""

    _sections = {
        "wear": WearHistogram,
    }

    cells: str
    """Two base64url digits per cell: a number of 12 bits. The high four are the valid pages, the middle four
    the invalid pages, both in fifteenths of the cell's pages. The low four say what most blocks in use hold:
    0 nothing (all are free), 1 data, 2 translation pages, 3 deltas, 4 chunks, 5 the remap log, 6 page
    validity; 15 if all blocks are retired."""
    host_bytes: int
    """Bytes of the host's write requests so far."""
    requests: int
    """Requests so far."""
    wear: WearHistogram
    """How often blocks were erased."""


class WindowLatency(Section):
    """Latencies of the requests answered between two moments, microseconds. Where two windows were joined to
    save memory, each percentile is the larger of both."""

    count: int
    """Requests."""
    max: float
    """Largest, within 0.1 %."""
    p50: float
    """Median."""
    p99: float
    """99th percentile."""
    p999: float
    """99.9th percentile."""


class TimelineWindow(Section):
    """A moment of a run."""

    _sections = {
        "read_us": WindowLatency,
        "write_us": WindowLatency,
    }

    _optional = frozenset({
        "read_us",
        "write_us",
    })

    device_s: float
    """Device time, seconds; 0 without timing."""
    free_blocks: int
    """Free blocks now."""
    host_bytes: int
    """Bytes of the host's write requests so far."""
    host_page_writes: int
    """Host page writes so far."""
    programs_by_cause: dict[str, int]
    """Page programs so far by cause; causes without any are absent."""
    read_us: WindowLatency | None
    """Latencies of host reads answered since the moment before; absent if none was."""
    requests: int
    """Requests so far."""
    write_us: WindowLatency | None
    """Latencies of host writes answered since the moment before; absent if none was."""


class Timeline(Section):
    """A run or a life over time, from `replay.timeline_cells`."""

    _sections = {
        "frames": TimelineFrame,
        "windows": TimelineWindow,
    }

    blocks: int
    """Blocks of the drive."""
    blocks_per_cell: int
    """Consecutive blocks that share a cell of the map; the last cell may have fewer."""
    frames: list[TimelineFrame]
    """Maps of the blocks, at most 64: the first is the drive before the first request, the last the drive
    after the last one."""
    windows: list[TimelineWindow]
    """Moments of the run in order, at most 400: counters so far, latencies since the moment before."""


class TimeRecord(Section):
    """Device time."""

    array_utilisation: float
    """Busy share of the dies (or planes)."""
    channel_utilisation: float
    """Busy share of the channels."""
    device_s: float
    """When the last operation ended, seconds of device time since the first measured request."""
    mode: str
    """Engine."""


class TraceRecord(Section):
    """The input of a run."""

    _optional = frozenset({
        "sha256",
    })

    aging_requests: int
    """Requests used for aging, before measurement."""
    duration_s: float
    """From first to last measured request, seconds of trace time."""
    footprint_pages: int
    """Distinct 4-KiB pages touched."""
    path: str
    """File or workload specification."""
    rejected: int
    """Lines skipped as bad."""
    requests: int
    """Requests replayed and measured."""
    sha256: str | None
    """SHA-256 of the file; absent for generated workloads."""


class RunRecord(Section):
    """One design's run."""

    _sections = {
        "bytes": BytesRecord,
        "config": Config,
        "device": DeviceRecord,
        "latency_us": LatencyRecord,
        "lifetime": LifetimeRecord,
        "phases": SeriesPoint,
        "recovery": RecoveryRecord,
        "series": SeriesPoint,
        "service": ServiceRecord,
        "steady": Steadiness,
        "timeline": Timeline,
        "timing": TimeRecord,
        "trace": TraceRecord,
    }

    _optional = frozenset({
        "partial_reason",
        "recovery",
        "timeline",
    })

    buffer_absorbed_writes: int
    """Page writes absorbed by the write buffer."""
    bytes: BytesRecord
    """What was written, in bytes."""
    config: Config
    """The configuration with every value that the run used: it gives the same run again, on this input."""
    cpu_seconds: float
    """CPU time of the measured part of the replay, seconds."""
    design: str
    """Name of the design."""
    device: DeviceRecord
    """The device."""
    erases: int
    """Block erases."""
    erases_by_cause: dict[str, int]
    """The same by cause."""
    host_page_reads: int
    """Pages read by the host from the FTL."""
    host_page_remaps: int
    """Pages that the host asked to remap. Where the design has no remap they are also counted as page reads,
    writes and trims, as far as they cost one."""
    host_page_trims: int
    """Pages deallocated."""
    host_page_writes: int
    """Pages that left the write buffer towards the FTL."""
    latency_us: LatencyRecord
    """Latencies, microseconds; zero without timing."""
    lifetime: LifetimeRecord
    """Wear and lifetime."""
    lost_pages: int
    """Pages programmed as lost: what collection carried on of pages that could not be read."""
    media_errors: int
    """Flash pages found unreadable."""
    notes: list[str]
    """What figures rest on a model rather than on the input."""
    partial: bool
    """The input was not replayed to its end; figures describe the part before."""
    partial_reason: str | None
    """Why the run ended early."""
    parts: dict[str, float]
    """Figures of the design's parts, by name."""
    peak_rss_bytes: int
    """Largest resident memory of this process during the run, bytes (0 where the system does not tell)."""
    phases: list[SeriesPoint]
    """Counters at the end of each phase, for inputs that have phases: differences are what a phase did."""
    precondition_cpu_seconds: float
    """CPU time of preconditioning, seconds."""
    programs: int
    """Page programs."""
    programs_by_cause: dict[str, int]
    """Page programs by cause; causes without any are absent."""
    ram_bytes: int
    """RAM of a controller for this design, bytes."""
    ram_bytes_by_structure: dict[str, int]
    """The same by structure."""
    reads: int
    """Page and spare-area reads."""
    reads_by_cause: dict[str, int]
    """The same by cause."""
    recovery: RecoveryRecord | None
    """What the recovery after the last request took, if one was asked for."""
    recycled_writes: int
    """Host page writes served by reviving a dead page."""
    seed: int
    """Seed."""
    series: list[SeriesPoint]
    """Counters over the run, at most 200 points."""
    service: ServiceRecord
    """How requests came, and how many were answered."""
    spare_reads_by_cause: dict[str, int]
    """Those of them that read only a spare area, by cause."""
    steady: Steadiness
    """Whether write amplification was steady."""
    timeline: Timeline | None
    """What happened over time and where on the flash, if `replay.timeline_cells` asked for it."""
    timing: TimeRecord
    """Time model."""
    trace: TraceRecord
    """The input."""
    variant: str
    """Settings that tell the run from others of a comparison; empty if the design does."""
    version: str
    """Version of this software."""
    write_amplification: float
    """`programs / host_page_writes`: in pages. `BytesRecord::write_amplification` counts bytes."""
    write_reduction: float
    """Share of host page writes that cost no program of their own."""
    writes_by_form: dict[str, int]
    """Host page writes by what became of them: page, recycled, deduplicated, delta, packed."""
