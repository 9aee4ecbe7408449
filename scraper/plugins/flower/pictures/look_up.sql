-- A picture that is kept, or why there is none, as long as that is fresh.
SELECT media_type, body, problem
  FROM product_pictures
 WHERE site_id = :site_id AND url_hash = :url_hash
   AND fetched_at > now() - CASE WHEN problem IS NULL THEN make_interval(days => :days)
                                 ELSE make_interval(mins => :minutes) END
