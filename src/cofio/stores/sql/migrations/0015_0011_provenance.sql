ALTER TABLE memories ADD COLUMN provenance TEXT NOT NULL DEFAULT '';
ALTER TABLE memories ADD COLUMN author TEXT NOT NULL DEFAULT '';
UPDATE memories SET provenance = CASE WHEN method = 'import' OR origin <> '' THEN 'import' ELSE 'user' END
WHERE method IN ('import', 'manual') OR origin <> '';
