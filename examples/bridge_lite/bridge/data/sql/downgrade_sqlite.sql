-- Ends the synchronization. The table has everything, and the column version stays.
drop trigger if exists bridge_to_record_insert;
drop trigger if exists bridge_to_record_update;
drop trigger if exists bridge_to_record_delete;
drop trigger if exists bridge_to_intents_insert;
drop trigger if exists bridge_to_intents_update;
drop trigger if exists bridge_to_intents_delete;
