"""The lesson: scenes that follow the chapter, run on the live engine, measured, and judged by what was measured."""
