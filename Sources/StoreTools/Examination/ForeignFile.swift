import CipherStore
import KeyCustody
import PageFormat
import StorePlatform
import StoreSharing

/// A file that is no store and never was one, as far as anything shows: a text, a plain database, another encrypted file.
/// The remedies for stores do not apply to it.
struct ForeignFile {
    let what: String
    let why: String
    /// The remedy, as a sentence without its full stop.
    let remedy: String

    /// - Parameter paths: A regular file that is not in a backup.
    /// - Returns: Nil for a file with the header of a store, and for one beside which a file of a store is.
    init?(_ paths: StorePaths, _ verdict: HeaderVerdict) {
        let log = KeyLog(databasePath: paths.database).path
        let companions = [paths.sidecar, paths.sidecarBackup, paths.lock, log, paths.rotationCopy, paths.destroying]
        guard companions.allSatisfy({ (try? Files.entryExists($0)) == false }),
            (try? InterruptedRestoration.folder(of: paths)) == .some(nil)
        else { return nil }
        let place = ShellWord.path(paths.database)
        switch verdict {
        case .plaintextHeader, .damagedHeader: return nil
        case .empty:
            what = "\"\(paths.database)\" is not a store."
            why = "The file has no bytes."
            remedy = "check the path, or make a store there: `cipherctl create \(place)`"
        case .plainSQLite:
            what = "\"\(paths.database)\" is a plain SQLite database."
            why = "Its pages are readable without any key."
            remedy = "encrypt it into a new store: `cipherctl import \(place) NEW`; or read it as it is with `sqlite3`"
        case .opaque(let traits) where traits.looksRandom:
            what = "\"\(paths.database)\" is not a store."
            why = "It may be a database of SQLCipher, or another encrypted file."
            remedy = "make a store of a database of SQLCipher: `cipherctl adopt \(place)`; otherwise check the path"
        case .opaque, .tooShort:
            what = "\"\(paths.database)\" is not a database."
            why = "It has neither the header of SQLite nor the look of an encrypted file."
            remedy = "check the path"
        }
    }

    var finding: Finding { Finding(.problem, "noStore", "\(what) \(why)", remedy: remedy) }

    var error: StoreError {
        StoreError(
            .notEncrypted, what: what, why: why,
            remedy: remedy.prefix(1).uppercased() + remedy.dropFirst() + ". The file was left as it was.")
    }
}
