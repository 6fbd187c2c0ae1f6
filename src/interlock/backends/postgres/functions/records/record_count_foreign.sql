-- Raise the version of a record that a foreign statement changes without doing so, and note the time.
create or replace function interlock.record_count_foreign() returns trigger
language plpgsql volatile
as $$
begin
    new.version := old.version + 1;
    new.updated_at := greatest(old.updated_at, interlock.micros(clock_timestamp()));
    return new;
end
$$;
