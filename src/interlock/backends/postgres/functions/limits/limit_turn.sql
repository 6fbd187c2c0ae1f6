-- How long a free slot is kept for the first in the queue, in microseconds: TURN_SECONDS.
create or replace function interlock.limit_turn() returns bigint
language sql immutable
as $$ select 10000000::bigint $$;
