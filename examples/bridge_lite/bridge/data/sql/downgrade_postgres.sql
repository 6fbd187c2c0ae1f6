-- Ends the synchronization. The table has everything, and the column version stays.
drop trigger if exists bridge_to_record on intents;
drop trigger if exists bridge_to_intents on interlock.record;
drop trigger if exists bridge_to_intents_delete on interlock.record;
drop function if exists bridge_intents_to_record();
drop function if exists bridge_record_to_intents();
drop function if exists bridge_history(jsonb);
drop function if exists bridge_imported(jsonb, jsonb);
