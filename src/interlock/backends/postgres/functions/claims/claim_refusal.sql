-- Why an owner has no claim on a key: the holder, its state, and why the owner's own claim was forgotten, if it was.
create or replace function interlock.claim_refusal(p_namespace text, p_key text, p_owner text, p_now timestamptz) returns json
language sql stable
as $$
    select json_build_array(c.owner, c.state, (
        select max(f.why) from interlock.forced f where f.namespace = p_namespace and f.owner = p_owner))
    from (select) nothing
    left join interlock.claim c on c.namespace = p_namespace and c.key = p_key and c.kept_until > p_now
$$;
