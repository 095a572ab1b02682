-- The triggers planned their statements for each array of ids, which took 60 us of the
-- 570 us that the insertion of a symbol takes.
ALTER FUNCTION canvasback_draw_contents_version() SET plan_cache_mode = force_generic_plan;
ALTER FUNCTION canvasback_draw_segment_version() SET plan_cache_mode = force_generic_plan;
