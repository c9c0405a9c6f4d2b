-- A digest of each row finds silent damage. Rows without one get it after the migrations.
ALTER TABLE memories ADD COLUMN digest TEXT;
