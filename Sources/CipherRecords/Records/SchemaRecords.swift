import CipherDatabase
import CipherSchema

// The facts about a schema that SQLite gives as rows, as records.

extension ColumnInfo: FetchableRecord {}

extension ForeignKeyViolation: FetchableRecord {}
