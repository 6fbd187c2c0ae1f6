select min(u.key collate "C"), u.owner
from interlock.limit_use u
cross join (select interlock.now_or($4) as now_is) clock
join interlock.session s on s.namespace = u.namespace and s.id = u.session and s.expires_at > now_is
where u.namespace = $1 and u.session = $2
  and (u.started or interlock.micros(now_is) <= greatest(u.last_asked, u.at) + $3::bigint)
group by u.owner
