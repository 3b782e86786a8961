//! Expected counts of flash operations of every design on one small workload (the golden table).
//!
//! If a number changes, the behaviour of a design has changed, and the commit message has to state why. A failing test
//! prints the whole table with the new numbers. A demand-paged design exports a few pages less on the same world (tiny
//! device), so its operations have other addresses than those of designs with a flat map.

use common::{
    BUFFERS, DesignUnderTest, OperationGenerator, Oracle, Random, TinyDevice, designs, device,
    nand_with_all_page_fields, tiny_devices,
};
use wearwell::operation::Cause;

use crate::common;

/// Causes of flash operations whose counts are in the golden table, in the order of its columns.
const COLUMNS: [Cause; 8] = [
    Cause::Host,
    Cause::Gc,
    Cause::WearLeveling,
    Cause::Translation,
    Cause::ContentMechanism,
    Cause::RemapLog,
    Cause::Checkpoint,
    Cause::Validity,
];

/// Number of head and tail pages programmed by each design that has such pages. These numbers have no column in the
/// golden table, because most designs have no head and tail pages.
const HEAD_AND_TAIL_PAGE_COUNTS: &[(&str, u64)] = &[
    ("page-map heads and tails", 834),
    ("remap segments heads and tails", 1314),
    ("remap nvram log heads and tails", 832),
    ("remap flash log heads and tails", 849),
    ("remap flash log atomic heads and tails", 927),
    ("remap flash log atomic heads and tails dual-pool", 920),
];

/// Row of the golden table: name of the design, programs by cause, reads by cause (causes as in [`COLUMNS`]), and
/// erases for GC and for wear leveling.
type Row = (&'static str, [u64; 8], [u64; 8], [u64; 2]);

/// Golden table: the expected counts of flash operations of every design.
#[rustfmt::skip]
const EXPECTED: &[Row] = &[
    ("page-map greedy", [3823, 2221, 0, 0, 0, 0, 0, 0], [1674, 2221, 0, 0, 0, 0, 0, 0], [341, 0]),
    ("page-map cost-benefit", [3823, 2345, 0, 0, 0, 0, 0, 0], [1674, 2345, 0, 0, 0, 0, 0, 0], [349, 0]),
    ("page-map random", [3823, 7119, 0, 0, 0, 0, 0, 0], [1674, 7119, 0, 0, 0, 0, 0, 0], [647, 0]),
    ("page-map 3-choices", [3823, 3340, 0, 0, 0, 0, 0, 0], [1674, 3340, 0, 0, 0, 0, 0, 0], [411, 0]),
    ("page-map fifo", [3823, 2751, 0, 0, 0, 0, 0, 0], [1674, 2751, 0, 0, 0, 0, 0, 0], [374, 0]),
    ("page-map wear-leveled", [3823, 2237, 0, 0, 0, 0, 0, 0], [1674, 2237, 0, 0, 0, 0, 0, 0], [342, 0]),
    ("page-map wear scanned", [3823, 1394, 1350, 0, 0, 0, 0, 0], [1674, 1394, 7030, 0, 0, 0, 0, 0], [237, 137]),
    ("page-map dual-pool", [3826, 1928, 7, 0, 0, 0, 0, 0], [1635, 1928, 7, 0, 0, 0, 0, 0], [323, 1]),
    ("page-map dual-pool fifo", [3826, 2400, 0, 0, 0, 0, 0, 0], [1635, 2400, 0, 0, 0, 0, 0, 0], [353, 0]),
    ("recyclable lru greedy", [3510, 2056, 0, 0, 0, 0, 0, 0], [1674, 2056, 0, 0, 0, 0, 0, 0], [312, 0]),
    ("recyclable lru rc-gc", [3511, 2073, 0, 0, 0, 0, 0, 0], [1674, 2073, 0, 0, 312, 0, 0, 0], [313, 0]),
    ("recyclable prob greedy", [3526, 2060, 0, 0, 0, 0, 0, 0], [1674, 2060, 0, 0, 297, 0, 0, 0], [313, 0]),
    ("recyclable prob rc-gc", [3530, 2074, 0, 0, 0, 0, 0, 0], [1674, 2074, 0, 0, 0, 0, 0, 0], [314, 0]),
    ("recyclable prob+fl greedy", [3526, 2061, 0, 0, 0, 0, 0, 0], [1674, 2061, 0, 0, 171, 0, 0, 0], [313, 0]),
    ("recyclable prob+fl rc-gc", [3533, 2095, 0, 0, 0, 0, 0, 0], [1674, 2095, 0, 0, 459, 0, 0, 0], [315, 0]),
    ("recyclable unbounded greedy", [1065, 400, 0, 0, 0, 0, 0, 0], [1674, 400, 0, 0, 2758, 0, 0, 0], [55, 0]),
    ("recyclable unbounded rc-gc", [1046, 381, 0, 0, 0, 0, 0, 0], [1674, 381, 0, 0, 0, 0, 0, 0], [53, 0]),
    ("dftl 1 entry", [3810, 2886, 0, 5350, 0, 0, 0, 0], [1635, 2886, 0, 12471, 0, 0, 0, 0], [717, 0]),
    ("dftl 4 entries", [3810, 2610, 0, 3268, 0, 0, 0, 0], [1635, 2610, 0, 10091, 0, 0, 0, 0], [570, 0]),
    ("dftl 16 entries", [3810, 2264, 0, 1522, 0, 0, 0, 0], [1635, 2264, 0, 8160, 0, 0, 0, 0], [439, 0]),
    ("dftl all entries", [3810, 1672, 0, 0, 0, 0, 0, 0], [1635, 1672, 0, 0, 0, 0, 0, 0], [307, 0]),
    ("lazyftl 10 entries", [3825, 3173, 0, 1120, 0, 0, 3869, 0], [1652, 3173, 0, 3640, 0, 0, 3865, 0], [713, 0]),
    ("lazyftl 40 entries", [3825, 2815, 0, 1674, 0, 0, 1464, 0], [1652, 2826, 0, 4072, 0, 0, 1462, 0], [575, 0]),
    ("u-ftl", [3815, 2494, 0, 2525, 0, 0, 0, 3412], [1646, 2515, 0, 5048, 0, 0, 0, 3731], [731, 0]),
    ("u-ftl 40 entries", [3815, 2326, 0, 1592, 0, 0, 0, 3394], [1646, 2363, 0, 3958, 0, 0, 0, 3716], [660, 0]),
    ("ib-ftl", [3818, 3563, 0, 1077, 0, 0, 3901, 478], [1672, 3566, 0, 3589, 0, 0, 3897, 2502], [767, 0]),
    ("ib-ftl 40 entries", [3818, 2966, 0, 1659, 0, 0, 1453, 294], [1672, 2974, 0, 4020, 0, 0, 1451, 2305], [601, 0]),
    ("geckoftl", [3820, 2197, 0, 2687, 0, 0, 707, 308], [1656, 2207, 0, 5218, 0, 0, 705, 648], [572, 0]),
    ("geckoftl pairwise", [3823, 2106, 0, 2033, 0, 0, 167, 397], [1638, 2138, 0, 4516, 0, 0, 167, 732], [497, 0]),
    ("geckoftl ratio 3", [3810, 2095, 0, 2303, 0, 0, 287, 235], [1628, 2108, 0, 4818, 0, 0, 287, 569], [510, 0]),
    ("geckoftl all entries", [3820, 2320, 0, 1335, 0, 0, 0, 121], [1656, 2320, 0, 2005, 0, 0, 0, 469], [439, 0]),
    ("delta", [3707, 2139, 0, 0, 163, 0, 0, 0], [1636, 2139, 0, 0, 332, 0, 0, 0], [340, 0]),
    ("delta two open pages dead-bytes", [3709, 2141, 0, 0, 128, 0, 0, 0], [1635, 2141, 0, 0, 278, 0, 0, 0], [338, 0]),
    ("delta tables on flash", [3699, 2793, 0, 2750, 154, 0, 0, 0], [1671, 2793, 0, 9662, 318, 0, 0, 0], [552, 0]),
    ("integrated compression", [107, 762, 0, 0, 3139, 0, 0, 0], [3485, 938, 0, 0, 1224, 0, 0, 0], [215, 0]),
    ("integrated dedup and compression", [36, 0, 0, 0, 65, 0, 0, 0], [2790, 0, 0, 0, 7385, 0, 0, 0], [0, 0]),
    ("remap none", [3823, 2221, 0, 0, 0, 0, 0, 0], [1674, 2221, 0, 0, 0, 0, 0, 0], [341, 0]),
    ("remap segments", [4256, 5232, 0, 0, 0, 0, 0, 0], [1950, 5232, 0, 0, 2959, 0, 0, 0], [556, 0]),
    ("remap segments few entries", [4223, 4719, 0, 0, 0, 0, 0, 0], [1869, 4719, 0, 0, 863, 0, 0, 0], [522, 0]),
    ("remap nvram log", [3633, 2651, 0, 0, 0, 0, 0, 0], [1847, 2651, 0, 0, 2989, 0, 0, 0], [357, 0]),
    ("remap flash log", [3204, 1983, 0, 0, 0, 794, 0, 0], [1728, 1983, 0, 0, 2448, 1631, 0, 0], [338, 0]),
    ("remap ideal", [107, 0, 0, 0, 0, 0, 0, 0], [1248, 0, 0, 0, 3302, 0, 0, 0], [0, 0]),
    ("remap ideal few entries", [2519, 569, 0, 0, 0, 0, 0, 0], [1243, 569, 0, 0, 873, 0, 0, 0], [157, 0]),
    ("nvram page-map", [3823, 2221, 0, 0, 0, 0, 0, 0], [1674, 2221, 0, 0, 0, 0, 0, 0], [341, 0]),
    ("nvram page-map fifo", [3823, 2751, 0, 0, 0, 0, 0, 0], [1674, 2751, 0, 0, 0, 0, 0, 0], [374, 0]),
    ("nvram recyclable", [3533, 2095, 0, 0, 0, 0, 0, 0], [1674, 2095, 0, 0, 459, 0, 0, 0], [315, 0]),
    ("nvram recyclable unbounded", [1065, 400, 0, 0, 0, 0, 0, 0], [1674, 400, 0, 0, 2758, 0, 0, 0], [55, 0]),
    ("nvram remap", [937, 3, 0, 0, 0, 0, 0, 0], [1243, 3, 0, 0, 2457, 0, 0, 0], [23, 0]),
    ("nvram remap none", [3823, 2221, 0, 0, 0, 0, 0, 0], [1674, 2221, 0, 0, 0, 0, 0, 0], [341, 0]),
    ("nvram delta", [3708, 2144, 0, 0, 191, 0, 0, 0], [1635, 2142, 0, 0, 341, 0, 0, 0], [342, 0]),
    ("nvram integrated compression", [107, 813, 0, 0, 3175, 0, 0, 0], [3479, 965, 0, 0, 1288, 0, 0, 0], [220, 0]),
    ("nvram integrated", [36, 0, 0, 0, 65, 0, 0, 0], [2790, 0, 0, 0, 7385, 0, 0, 0], [0, 0]),
    ("recyclable map on flash", [3493, 2684, 0, 2686, 0, 0, 0, 0], [1687, 2684, 0, 9484, 382, 0, 0, 0], [518, 0]),
    ("recyclable prob+fl refreshed", [3560, 1918, 0, 0, 0, 0, 0, 0], [1674, 1918, 0, 0, 290, 0, 0, 0], [306, 0]),
    ("recyclable unbounded refreshed", [3332, 1680, 0, 0, 0, 0, 0, 0], [1674, 1680, 0, 0, 0, 0, 0, 0], [277, 0]),
    ("page-map heads and tails", [3821, 2024, 0, 0, 0, 0, 0, 0], [1661, 2024, 0, 0, 0, 0, 0, 0], [381, 0]),
    ("remap segments heads and tails", [4199, 5008, 0, 0, 0, 0, 0, 0], [1973, 5008, 0, 0, 2935, 0, 0, 0], [621, 0]),
    ("remap nvram log heads and tails", [3484, 2346, 0, 0, 0, 0, 0, 0], [1858, 2346, 0, 0, 2990, 0, 0, 0], [380, 0]),
    ("remap flash log heads and tails", [3166, 1800, 0, 0, 0, 975, 0, 0], [1711, 1800, 0, 0, 2431, 1880, 0, 0], [389, 0]),
    ("remap segments atomic", [3816, 4974, 0, 0, 0, 0, 0, 0], [1450, 4973, 0, 0, 2971, 0, 0, 0], [513, 0]),
    ("remap nvram log atomic", [3397, 3023, 0, 0, 0, 0, 0, 0], [1450, 3023, 0, 0, 2992, 0, 0, 0], [365, 0]),
    ("remap flash log atomic heads and tails", [3082, 2338, 0, 0, 0, 1070, 0, 0], [1452, 2338, 0, 0, 2960, 2075, 0, 0], [428, 0]),
    ("delta journal", [3689, 2707, 0, 2857, 167, 0, 0, 0], [1638, 2708, 0, 9644, 341, 0, 0, 0], [553, 0]),
    ("dftl dual-pool", [3823, 1936, 564, 3295, 0, 0, 0, 0], [1638, 1936, 564, 10132, 0, 0, 0, 0], [494, 71]),
    ("geckoftl dual-pool", [3830, 1645, 434, 2363, 0, 0, 243, 236], [1677, 1666, 434, 4878, 0, 0, 243, 570], [458, 53]),
    ("recyclable dual-pool", [3509, 1823, 16, 0, 0, 0, 0, 0], [1635, 1823, 16, 0, 514, 0, 0, 0], [296, 2]),
    ("delta dual-pool", [3696, 1794, 27, 0, 162, 0, 0, 0], [1635, 1794, 27, 0, 328, 0, 0, 0], [316, 3]),
    ("integrated dual-pool", [42, 0, 0, 0, 56, 0, 0, 0], [2738, 0, 0, 0, 7324, 0, 0, 0], [0, 0]),
    ("remap segments dual-pool", [4215, 4219, 131, 0, 0, 0, 0, 0], [1929, 4219, 131, 0, 2964, 0, 0, 0], [487, 12]),
    ("remap flash log atomic heads and tails dual-pool", [3084, 1995, 250, 0, 0, 1106, 0, 0], [1486, 1995, 250, 0, 2972, 2091, 0, 0], [394, 30]),
    ("nvram page-map dual-pool", [3826, 1927, 24, 0, 0, 0, 0, 0], [1635, 1927, 24, 0, 0, 0, 0, 0], [322, 3]),
    ("nvram dftl 4 entries", [3825, 2877, 0, 3177, 0, 0, 0, 0], [1687, 2877, 0, 10003, 0, 0, 0, 0], [581, 0]),
    ("nvram dftl all entries", [3825, 1965, 0, 0, 0, 0, 0, 0], [1687, 1965, 0, 0, 0, 0, 0, 0], [325, 0]),
    ("nvram delta map on flash", [3699, 2722, 0, 2702, 187, 0, 0, 0], [1672, 2721, 0, 9607, 342, 0, 0, 0], [546, 0]),
    ("nvram recyclable map on flash", [3500, 2677, 0, 2637, 0, 0, 0, 0], [1687, 2677, 0, 9437, 377, 0, 0, 0], [515, 0]),
    ("mixture cached+bitmap alone", [3833, 2935, 0, 2725, 0, 0, 0, 3445], [1671, 2935, 0, 9536, 0, 0, 0, 3783], [773, 0]),
    ("mixture cached+log alone", [3820, 2873, 0, 2732, 0, 0, 0, 97], [1665, 2873, 0, 9535, 0, 0, 0, 1806], [559, 0]),
    ("mixture cached+gecko alone", [3816, 2638, 0, 2715, 0, 0, 0, 48], [1651, 2638, 0, 9508, 0, 0, 0, 377], [541, 0]),
    ("mixture noted cached+gecko alone", [3816, 2590, 0, 2654, 0, 0, 0, 48], [1651, 2590, 0, 9447, 0, 0, 0, 376], [534, 0]),
    ("mixture flat+gecko recycle", [3502, 2096, 0, 0, 0, 0, 0, 46], [1687, 2096, 0, 0, 513, 0, 0, 359], [317, 0]),
    ("mixture flat recycle+share", [830, 4, 0, 0, 0, 0, 0, 0], [1243, 4, 0, 0, 2617, 0, 0, 0], [16, 0]),
    ("mixture cached recycle+delta", [3421, 2520, 0, 2706, 147, 0, 0, 0], [1672, 2520, 0, 9596, 776, 0, 0, 0], [514, 0]),
    ("mixture nvram cached recycle+delta", [3405, 2528, 0, 2665, 165, 0, 0, 0], [1672, 2527, 0, 9561, 795, 0, 0, 0], [512, 0]),
    ("mixture nvram cached+log share+delta", [923, 6, 0, 2200, 61, 0, 0, 19], [1244, 5, 0, 9011, 2567, 0, 0, 210], [166, 0]),
    ("mixture flat+bitmap recycle+share+delta", [798, 4, 0, 0, 7, 0, 0, 659], [1224, 4, 0, 0, 2663, 0, 0, 675], [58, 0]),
    ("mixture cached+log recycle+share+delta", [802, 11, 0, 2258, 11, 0, 0, 16], [1242, 11, 0, 9046, 2671, 0, 0, 136], [160, 0]),
    ("mixture noted cached+log recycle+share+delta", [808, 17, 0, 2203, 26, 0, 0, 23], [1242, 17, 0, 8997, 2679, 0, 0, 148], [157, 0]),
    ("mixture cached+gecko recycle+share+delta", [813, 3, 0, 2270, 0, 0, 0, 9], [1214, 3, 0, 9057, 2626, 0, 0, 27], [158, 0]),
    ("mixture nvram recycle+share+delta", [807, 5, 0, 0, 36, 0, 0, 0], [1203, 5, 0, 0, 2708, 0, 0, 0], [18, 0]),
    ("mixture noted cached+gecko recycle+compress", [127, 1332, 0, 2604, 2872, 0, 0, 13], [3324, 1493, 0, 9386, 1471, 0, 0, 84], [399, 0]),
    ("mixture flat+log share+compress", [112, 0, 0, 0, 725, 0, 0, 4], [2698, 0, 0, 0, 5505, 0, 0, 11], [17, 0]),
    ("mixture cached share+compress", [137, 0, 0, 2330, 712, 0, 0, 0], [2539, 0, 0, 9122, 5383, 0, 0, 0], [163, 0]),
    ("mixture nvram cached share+compress", [137, 0, 0, 2260, 712, 0, 0, 0], [2539, 0, 0, 9049, 5383, 0, 0, 0], [159, 0]),
    ("mixture cached+gecko recycle+share+compress", [116, 0, 0, 2298, 681, 0, 0, 2], [2588, 0, 0, 9078, 5193, 0, 0, 1], [159, 0]),
    ("mixture nvram recycle+share+compress", [104, 0, 0, 0, 602, 0, 0, 0], [2578, 0, 0, 0, 5180, 0, 0, 0], [8, 0]),
    ("mixture cached+bitmap delta+compress", [122, 1384, 0, 2673, 3183, 0, 0, 1006], [3452, 1565, 0, 9555, 1680, 0, 0, 1087], [490, 0]),
    ("mixture flat delta+compress", [124, 885, 0, 0, 3181, 0, 0, 0], [3358, 1047, 0, 0, 1759, 0, 0, 0], [227, 0]),
    ("mixture nvram delta+compress", [122, 900, 0, 0, 3181, 0, 0, 0], [3441, 1056, 0, 0, 1320, 0, 0, 0], [227, 0]),
    ("mixture noted cached+gecko recycle+share+delta+compress", [134, 0, 0, 2206, 613, 0, 0, 3], [2447, 0, 0, 8990, 5125, 0, 0, 4], [151, 0]),
    ("mixture nvram cached+gecko recycle+share+delta+compress", [133, 0, 0, 2210, 620, 0, 0, 2], [2447, 0, 0, 8994, 5103, 0, 0, 3], [152, 0]),
    ("mixture flat recycle+share+delta+compress", [121, 0, 0, 0, 636, 0, 0, 0], [2553, 0, 0, 0, 5222, 0, 0, 0], [11, 0]),
    ("mixture cached recycle+share+delta+compress", [125, 0, 0, 2278, 636, 0, 0, 0], [2593, 0, 0, 9066, 5290, 0, 0, 0], [155, 0]),
    ("mixture nvram cached recycle+share+delta+compress", [119, 0, 0, 2207, 604, 0, 0, 0], [2533, 0, 0, 8996, 5128, 0, 0, 0], [149, 0]),
    ("mixture flat recycle+silent", [3488, 2000, 0, 0, 0, 0, 0, 0], [1674, 2000, 0, 0, 3162, 0, 0, 0], [306, 0]),
    ("mixture nvram cached delta+compress+silent", [128, 1433, 0, 2817, 3176, 0, 0, 0], [3477, 1610, 0, 10404, 7032, 0, 0, 0], [438, 0]),
    ("page-map silent", [3781, 2234, 0, 0, 0, 0, 0, 0], [1674, 2234, 0, 0, 2705, 0, 0, 0], [340, 0]),
    ("geckoftl silent", [3781, 2211, 0, 2619, 0, 0, 728, 303], [1656, 2221, 0, 8924, 2706, 0, 726, 642], [567, 0]),
    ("recyclable history of the store", [3509, 2028, 0, 0, 0, 0, 0, 0], [1674, 2028, 0, 0, 314, 0, 0, 0], [310, 0]),
    ("nvram recyclable history of the store refreshed", [3553, 1852, 0, 0, 0, 0, 0, 0], [1674, 1852, 0, 0, 270, 0, 0, 0], [301, 0]),
    ("mixture of the design wearwell", [114, 0, 0, 2229, 643, 0, 0, 3], [2444, 0, 0, 9007, 5123, 0, 0, 5], [153, 0]),
    ("mixture of the design wearwell dual-pool", [128, 0, 27, 2174, 617, 0, 0, 3], [2501, 0, 35, 8952, 5007, 0, 0, 5], [121, 29]),
    ("mixture of the design wearwell with full tables", [3533, 2088, 0, 2739, 46, 0, 0, 44], [1631, 2094, 0, 10060, 2625, 0, 0, 321], [494, 0]),
    ("mixture nvram flat+log recycle+share+delta", [827, 7, 0, 0, 44, 0, 0, 17], [1236, 7, 0, 0, 2695, 0, 0, 151], [22, 0]),
    ("mixture nvram flat+log recycle+share+compress", [106, 0, 0, 0, 658, 0, 0, 4], [2493, 0, 0, 0, 5107, 0, 0, 0], [13, 0]),
    ("mixture nvram flat+gecko delta+compress", [119, 819, 0, 0, 3192, 0, 0, 13], [3489, 1005, 0, 0, 1312, 0, 0, 90], [224, 0]),
    ("mixture of the design wearwell striped", [129, 270, 0, 1157, 1401, 0, 0, 4], [3751, 337, 0, 8049, 3474, 0, 0, 27], [354, 0]),
    ("dftl 4 entries striped", [4052, 4073, 0, 1846, 0, 0, 0, 0], [2562, 4073, 0, 8973, 0, 0, 0, 0], [1221, 0]),
    ("lazyftl 10 entries striped", [4057, 9910, 0, 638, 0, 0, 4416, 0], [2566, 9925, 0, 3875, 0, 0, 4415, 0], [2353, 0]),
    ("u-ftl striped", [4054, 4633, 0, 1822, 0, 0, 0, 3882], [2571, 4684, 0, 4944, 0, 0, 0, 4944], [1777, 0]),
    ("geckoftl striped", [4039, 10496, 0, 1534, 0, 0, 1353, 481], [2528, 10549, 0, 4772, 0, 0, 1352, 2210], [2214, 0]),
    ("delta journal striped", [3682, 10989, 0, 1715, 478, 0, 0, 0], [2625, 10997, 0, 9010, 976, 0, 0, 0], [2084, 0]),
    ("remap flash log striped", [1855, 791, 0, 0, 0, 65, 0, 0], [2075, 791, 0, 0, 1714, 787, 0, 0], [317, 0]),
];

/// Returns the world (tiny device) of a design in the golden table: `many_planes` for a design whose metadata is striped
/// over the planes, otherwise `slc`, which has one plane.
fn world_of(design: &DesignUnderTest) -> TinyDevice {
    let name = if design.parts.gc.stripes_metadata { "many_planes" } else { "slc" };
    tiny_devices().into_iter().find(|tiny_device| tiny_device.name == name).expect("a known world")
}

/// Executes 5,000 host operations on the world of a design ([`world_of`]) without a write buffer. Returns the row of the
/// golden table with the counts of flash operations, and the number of head and tail pages programmed.
fn row_of(design: &DesignUnderTest) -> (Row, u64) {
    let tiny_device = world_of(design);
    let mut device = device(&tiny_device, &design.parts, BUFFERS[0], nand_with_all_page_fields(&tiny_device));
    let mut oracle = Oracle::for_device(&device, 60);
    let (sectors, sectors_per_page) = (oracle.sectors(), oracle.sectors_per_page());
    let mut mix = OperationGenerator {
        random: Random::new(42),
        sectors,
        sectors_per_page,
        content_count: 60,
        changes_policies: false,
    };
    for _ in 0..5000 {
        oracle.apply(&mut device, mix.draw()).expect("there is room");
    }
    let stats = device.ftl().stats();
    let [programs, reads] =
        [stats.programs, stats.reads].map(|counts| COLUMNS.map(|cause| counts[cause as usize]));
    let described = stats.programs[Cause::BlockMetadata as usize];
    assert_eq!(programs.iter().sum::<u64>() + described, stats.total_programs(), "no other cause programs");
    assert_eq!(reads.iter().sum::<u64>(), stats.total_reads(), "no other cause reads");
    let erases = [Cause::Gc, Cause::WearLeveling].map(|c| stats.erases[c as usize]);
    assert_eq!(erases.iter().sum::<u64>(), stats.total_erases(), "no other cause erases");
    ((design.name, programs, reads, erases), described)
}

#[test]
fn flash_operations_of_every_design_match_the_golden_table() {
    let (rows, described): (Vec<Row>, Vec<u64>) = designs().iter().map(row_of).unzip();
    let names = rows.iter().map(|row| row.0).zip(described);
    let heads_and_tails: Vec<(&str, u64)> = names.filter(|&(_, pages)| pages > 0).collect();
    assert_eq!(heads_and_tails, HEAD_AND_TAIL_PAGE_COUNTS, "head and tail pages");
    let names = |rows: &[Row]| rows.iter().map(|row| row.0).collect::<Vec<_>>();
    assert_eq!(names(&rows), names(EXPECTED), "every design has a row, in the order of the list of designs");
    let moved = rows.iter().zip(EXPECTED).filter(|(now, before)| now != before);
    let moved: Vec<String> =
        moved.map(|(now, before)| format!("    {before:?}, before\n    {now:?}, now")).collect();
    assert!(moved.is_empty(), "{} of {} rows moved:\n{}", moved.len(), rows.len(), moved.join("\n"));
}
