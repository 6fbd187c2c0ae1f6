update interlock_job_number set last = last + :count where what = :what returning last
