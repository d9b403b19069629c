// `import CipherStore` is all that a program needs: connections, records, requests and observations, the key sources it
// passes, the errors it catches, and the C functions of SQLite for `db.sqliteConnection`.
@_exported import CSQLCipher
@_exported import CipherDatabase
@_exported import CipherObservation
@_exported import CipherRecords
@_exported import CipherSchema
@_exported import KeyCustody
@_exported import StorePlatform
@_exported import StoreSharing
