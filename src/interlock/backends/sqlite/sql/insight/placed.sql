-- Jobs that have a place, by lane and in order.
select kind, lane from interlock_job
where lane > :first and lane < :beyond and position > 0
order by lane, position
limit :limit
