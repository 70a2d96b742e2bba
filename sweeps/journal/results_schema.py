"""The journal's table of results, as it is made."""

BY_AXES = """CREATE INDEX IF NOT EXISTS results_by_axes ON results (
        stale, sweep, place_id, model, device, latency_p50_ms, device_id, outcome, preset, runtime, backend, precision,
        quantization, qengine, interface, layout, capture, format, fuse, optimize, granularity, calibration_images,
        preference, relaxed_fp16, flexible_batch, reduced_range, opset, graph_optimization, toolchain, runner_toolchain,
        threads, cpus, reuse_input
    )"""
"""All that results are chosen by (`sweeps.journal.chosen_results`), so that their long texts are not read for it."""

AXES_OF_9 = ("opset INTEGER NOT NULL DEFAULT 0", "graph_optimization TEXT NOT NULL DEFAULT 'none'")
AXES_OF_14 = tuple(f"{name} TEXT NOT NULL DEFAULT 'installed'" for name in ("toolchain", "runner_toolchain"))
LATER_AXES = ", ".join((*AXES_OF_9, *AXES_OF_14))
BATCHES_OF_15 = "batch_medians_ms TEXT NOT NULL DEFAULT '[]'"
LATER_OF_16 = tuple(f"{name} TEXT NOT NULL DEFAULT ''" for name in ("lacking", "device_word"))
_OF_NEW = "(sweep, device_id, outcome) = (NEW.sweep, NEW.device_id, NEW.outcome)"
ENDED: tuple[str, ...] = (
    """CREATE TABLE ended (
        sweep TEXT NOT NULL, device_id TEXT NOT NULL, outcome TEXT NOT NULL, jobs INTEGER NOT NULL,
        PRIMARY KEY (sweep, device_id, outcome)
    )""",
    """CREATE TRIGGER results_replaced BEFORE INSERT ON results BEGIN
        UPDATE ended SET jobs = jobs - 1 WHERE (sweep, device_id, outcome) = (
            SELECT sweep, device_id, outcome FROM results
            WHERE sweep = NEW.sweep AND job_key = NEW.job_key AND stale = 0
        );
    END""",
    # No upsert: in a trigger, the OR REPLACE of the statement outside would be its policy too.
    f"""CREATE TRIGGER results_added AFTER INSERT ON results WHEN NEW.stale = 0 BEGIN
        INSERT INTO ended SELECT NEW.sweep, NEW.device_id, NEW.outcome, 0
        WHERE NOT EXISTS (SELECT 1 FROM ended WHERE {_OF_NEW});
        UPDATE ended SET jobs = jobs + 1 WHERE {_OF_NEW};
    END""",  # noqa: S608  # words of ours
)
"""How many results each device has that are not stale, counted with each that is written: they are only ever put."""

BY_ATTEMPT = """CREATE INDEX IF NOT EXISTS results_by_attempt ON results (sweep, attempt, job_key)
    WHERE stale = 0 AND outcome != 'skipped'"""
"""What of a sweep is later than an attempt, without reading the rows."""

RESULTS: tuple[str, ...] = (
    f"""CREATE TABLE results (
        seq INTEGER PRIMARY KEY AUTOINCREMENT,
        attempt INTEGER NOT NULL, place_id TEXT NOT NULL, evaluation_id TEXT NOT NULL,
        sweep TEXT NOT NULL, job_key TEXT NOT NULL, build_key TEXT NOT NULL, name TEXT NOT NULL,
        model TEXT NOT NULL, grid TEXT NOT NULL, device_id TEXT NOT NULL, device TEXT NOT NULL,
        fingerprint TEXT NOT NULL, variant TEXT NOT NULL, runtime TEXT NOT NULL, backend TEXT NOT NULL,
        precision TEXT NOT NULL, quantization TEXT NOT NULL, qengine TEXT NOT NULL, interface TEXT NOT NULL,
        layout TEXT NOT NULL, capture TEXT NOT NULL, format TEXT NOT NULL, fuse INTEGER NOT NULL,
        optimize INTEGER NOT NULL, granularity TEXT NOT NULL, calibration_images INTEGER NOT NULL,
        preference TEXT NOT NULL, relaxed_fp16 INTEGER NOT NULL, flexible_batch INTEGER NOT NULL,
        reduced_range INTEGER NOT NULL, {LATER_AXES}, threads INTEGER NOT NULL, cpus TEXT NOT NULL,
        reuse_input INTEGER NOT NULL, outcome TEXT NOT NULL, stage TEXT NOT NULL, kind TEXT NOT NULL,
        reason TEXT NOT NULL, {", ".join(LATER_OF_16)}, preset TEXT NOT NULL, exec_context TEXT NOT NULL,
        runtime_version TEXT NOT NULL, gate TEXT NOT NULL, fixed_performance TEXT NOT NULL,
        protocol TEXT NOT NULL, runner TEXT NOT NULL,
        engine_ran TEXT NOT NULL, backend_ran TEXT NOT NULL, executor TEXT NOT NULL, emulated INTEGER NOT NULL,
        coverage TEXT NOT NULL, trust TEXT NOT NULL, block_medians_ms TEXT NOT NULL,
        confirmed_medians_ms TEXT NOT NULL, {BATCHES_OF_15}, check_medians_ms TEXT NOT NULL, sessions TEXT NOT NULL,
        rounds INTEGER NOT NULL, samples INTEGER NOT NULL, device_seconds REAL NOT NULL,
        batch_seconds REAL NOT NULL, timed_seconds REAL NOT NULL, full_seconds REAL NOT NULL,
        waited_seconds REAL NOT NULL, push_seconds REAL NOT NULL, accuracy_seconds REAL NOT NULL,
        settled TEXT NOT NULL, images INTEGER NOT NULL, link TEXT NOT NULL, stale INTEGER NOT NULL,
        extra_metrics TEXT NOT NULL, latency_p50_ms REAL, latency_ci_low_ms REAL, latency_ci_high_ms REAL,
        latency_p90_ms REAL, latency_p99_ms REAL, spread_within REAL, spread_between REAL,
        first_inference_ms REAL, load_ms REAL, model_rss_mb REAL, artifact_mb REAL, top1_percent REAL,
        top5_percent REAL, agreement_percent REAL, sqnr_db REAL, accuracy_drop_points REAL,
        accuracy_drop_low_points REAL, accuracy_drop_high_points REAL, temp_start_c REAL, temp_end_c REAL,
        UNIQUE (sweep, job_key)
    )""",
    BY_AXES,
    """CREATE TABLE places (
        sweep TEXT NOT NULL, place_id TEXT NOT NULL, model TEXT NOT NULL, device TEXT NOT NULL,
        jobs INTEGER NOT NULL,
        PRIMARY KEY (sweep, place_id, model)
    )""",
    """CREATE TABLE results_state (
        id INTEGER PRIMARY KEY CHECK (id = 1),
        is_whole INTEGER NOT NULL, epoch INTEGER NOT NULL, attempt INTEGER NOT NULL
    )""",
    "INSERT INTO results_state SELECT 1, NOT EXISTS (SELECT 1 FROM jobs), abs(random()), 0",
    *ENDED,
    BY_ATTEMPT,
)
"""Of version 7 on: the results themselves, a row for each finished job and skipped combination of each sweep. All of it
follows from the other tables, and can be made again (`sweeps.journal.rebuild`). `seq` grows with each change."""
