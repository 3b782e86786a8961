"""What the texts of the notebooks claim: a phrase of the text, and the expression that is true, or is that phrase, after the last cell.

A test insists that no figure of a text is missing here.
"""

from __future__ import annotations

CLAIMS: dict[str, dict[str, str]] = {
    "trace_to_answer.ipynb": {
        "nearly all of its 74,393 requests write": """f"nearly all of its {base['pgbench'].trace.requests:,} requests write" """
        """if base['pgbench'].host_page_writes > 500 * base['pgbench'].host_page_reads else None""",
        "as many bytes as the drive exports 5.4 times": """f"as many bytes as the drive exports {base['pgbench'].steady.drive_writes:.1f} times" """,
        "it moves 134,575 pages": """f"it moves {base['f2fs'].host_page_remaps:,} pages" """,
        "writes the drive only 1.2 times": """f"writes the drive only {base['f2fs'].steady.drive_writes:.1f} times" """,
        "its content is a model in which every page is unique": "any('content is synthetic: every page unique' in note for note in results['f2fs', 'recyclable'].notes)",
        "`pgbench` has the identity of every page": "not any('synthetic' in note for note in results['pgbench', 'recyclable'].notes)",
        "`integrated` has 18 % of the erases of `page-map`": """f"`integrated` has {100 * erases.loc['integrated', 'pgbench']:.0f} % of the erases of `page-map`" """,
        "and `wearwell` 19 %": """f"and `wearwell` {100 * erases.loc['wearwell', 'pgbench']:.0f} %" """,
        "`remap`, here by deduplication alone, has 59 %": """f"`remap`, here by deduplication alone, has {100 * erases.loc['remap', 'pgbench']:.0f} %" """
        """if base['pgbench'].host_page_remaps == 0 else None""",
        "and `recyclable` 94 %": """f"and `recyclable` {100 * erases.loc['recyclable', 'pgbench']:.0f} %" """,
        "`integrated` has 82 %": """f"`integrated` has {100 * erases.loc['integrated', 'f2fs']:.0f} %" """,
        "`wearwell` 83 %": """f"`wearwell` {100 * erases.loc['wearwell', 'f2fs']:.0f} %" """,
        "`remap` 90 %": """f"`remap` {100 * erases.loc['remap', 'f2fs']:.0f} %" """,
        "`recyclable` changes nothing": "erases.loc['recyclable', 'f2fs'] == 1.0",
        "`geckoftl` has 1.84 times as many": """f"`geckoftl` has {erases.loc['geckoftl', 'f2fs']:.2f} times as many" """,
        "`dftl` erases 2 and 4 % more than `page-map`": """f"`dftl` erases {100 * erases.loc['dftl', 'pgbench'] - 100:.0f} and {100 * erases.loc['dftl', 'f2fs'] - 100:.0f} % more than `page-map`" """,
        "needs 11 % of its RAM": """'needs ' + '/'.join({f"{100 * results[trace, 'dftl'].ram_bytes / base[trace].ram_bytes:.0f}" for trace in traces}) + ' % of its RAM'""",
        "None of the runs of pgbench is steady": "not any(results['pgbench', design].steady.is_steady for design in designs)",
        "of those of f2fs four are": "sum(results['f2fs', design].steady.is_steady for design in designs) == 4",
        "On f2fs `geckoftl` seems to last longer than `page-map`": "results['f2fs', 'geckoftl'].lifetime.host_tb_written_until_worn > base['f2fs'].lifetime.host_tb_written_until_worn",
        "with 1.84 times its erases": """f"with {erases.loc['geckoftl', 'f2fs']:.2f} times its erases" """,
        "its first 12,000 requests, with most of the erases, are left out": """f"its first {results['f2fs', 'geckoftl'].steady.from_request:,} requests, with most of the erases, are left out" """
        """if results['f2fs', 'geckoftl'].steady.erases < results['f2fs', 'geckoftl'].erases / 2 else None""",
        "of `page-map` 8,000 are": """f"of `page-map` {base['f2fs'].steady.from_request:,} are" """,
        "The order is nearly the same in all of them: first `integrated` and `wearwell`, then `remap`": "all(set(order[:2]) == {'integrated', 'wearwell'} and order[2] == 'remap' for order in (list(column.sort_values().index) for _, column in ratios.items()))",
        "pgbench erases only 5 % as many blocks with `integrated`": """f"pgbench erases only {100 * ratios['pgbench', 'none']['integrated']:.0f} % as many blocks with `integrated`" """,
        "it erases 18 % as many blocks as `page-map`": """f"it erases {100 * ratios['pgbench', 'aged']['integrated']:.0f} % as many blocks as `page-map`" """,
        "it needs 8.6 times the RAM of `page-map`": """f"it needs {results['pgbench', 'integrated'].ram_bytes / base['pgbench'].ram_bytes:.1f} times the RAM of `page-map`" """,
        "the gain is 10 % of the erases": """f"the gain is {100 - 100 * ratios['f2fs', 'in-use']['remap']:.0f} % of the erases" """,
        "and 13 % on a drive aged by the trace": """f"and {100 - 100 * ratios['f2fs', 'aged']['remap']:.0f} % on a drive aged by the trace" """,
    },
    "victim_policy.ipynb": {
        "On uniform writes no policy beats greedy here": "results['uniform', 'greedy'].programs == min(result.programs for (load, _), result in results.items() if load == 'uniform')",
        "On the skewed load cost-benefit is the best of the engine's policies": "min(engine, key=lambda name: results['skewed', name].programs) == 'cost-benefit'",
        "of 128 in a block": """f"of {results['skewed', 'greedy'].device.layout.pages_per_block} in a block" """,
        "With a margin of 32 pages": "f'With a margin of {best} pages'",
        "copies less than every policy of the engine on both loads that have hot pages": "all(by_margin[load, best].programs < results[load, name].programs for load in ('skewed', 'hot and cold') for name in engine)",
        "18.4 % lower than greedy's": """f"{100 - 100 * results['skewed', 'Patient'].write_amplification / results['skewed', 'greedy'].write_amplification:.1f} % lower than greedy's" """,
        "2.3 % lower than that of cost-benefit": """f"{100 - 100 * results['skewed', 'Patient'].write_amplification / results['skewed', 'cost-benefit'].write_amplification:.1f} % lower than that of cost-benefit" """,
        "2.9 % more than greedy": """f"{100 * results['uniform', 'Patient'].write_amplification / results['uniform', 'greedy'].write_amplification - 100:.1f} % more than greedy" """,
        "at 64 pages it is worse than greedy on every load": "all(by_margin[load, 64].programs > results[load, 'greedy'].programs for load in loads)",
        "All are steady": "all(result.steady.is_steady for result in results.values())",
        "104 and 115 times, and cost-benefit only 85 times": """f"{results['skewed', 'Patient'].lifetime.max_erase_count} and {results['skewed', 'greedy'].lifetime.max_erase_count} times, """
        """and cost-benefit only {results['skewed', 'cost-benefit'].lifetime.max_erase_count} times" """,
        "The drive wears less in the mean": "results['skewed', 'Patient'].lifetime.mean_erases_per_block < results['skewed', 'cost-benefit'].lifetime.mean_erases_per_block",
        "The advantage over cost-benefit stays for all of them": "len(others) == 3 and max(others) < 1.0",
    },
    "sweep.ipynb": {
        "Of the 27 runs one is listed": "f'Of the {len(first)} runs one is listed' if (~first.to_pandas()['steady.is_steady']).sum() == 1 else None",
        "more than the 2 % that pass as steady": "(first.to_pandas().query('not `steady.is_steady`')['steady.slope'].abs() > 0.02).all()",
        "less certain for `remap`": "set(first.to_pandas().query('not `steady.is_steady`')['design']) == {'remap'}",
        "27 of its 54 runs were known, and 27 were made now": "f'{second.kept} of its {len(second)} runs were known, and {second.ran} were made now'",
        "A sweep that is called again makes none": "third.ran == 0 and third.kept == len(third)",
        "From 7 to 28 % of spare space, write amplification of `page-map` falls from 6.56 to 2.61": """f"From 7 to 28 % of spare space, write amplification of `page-map` falls from {mean.loc[0.07, 'page-map']:.2f} to {mean.loc[0.28, 'page-map']:.2f}" """,
        "the host can write 3.0 times as much": """f"the host can write {(lambda worn: worn[0.28, 'page-map'] / worn[0.07, 'page-map'])(frame.groupby(['over_provisioning', 'design'])['lifetime.host_tb_written_until_worn'].mean()):.1f} times as much" """,
        "has between 4 and 6 % more": "(lambda more: f'has between {more.min():.0f} and {more.max():.0f} % more')(100 * mean['dftl'] / mean['page-map'] - 100)",
        "At 7 % of spare space it has 5.04, less than `page-map` at 10 %": """f"At 7 % of spare space it has {mean.loc[0.07, 'remap']:.2f}, less than `page-map` at 10 %" if mean.loc[0.07, 'remap'] < mean.loc[0.10, 'page-map'] else None""",
        "Seeds differ by 2.7 % at most": "f'Seeds differ by {100 * spread:.1f} % at most'",
        "3 of the 54 runs are not steady, all of them of `remap`": """f"{len(unsteady)} of the {len(frame)} runs are not steady, all of them of `remap`" if set(unsteady["design"]) == {"remap"} else None""",
    },
}
"""Claims by notebook."""
VALUES: dict[str, dict[str, str]] = {
    "victim_policy.ipynb": {
        "own": "results['skewed', 'Patient'].to_dict()",
        "arguments": "[loads['skewed'], str(best), *settings]",
    }
}
"""Expressions whose values a test needs, by notebook."""
