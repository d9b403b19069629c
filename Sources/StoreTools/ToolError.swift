import CipherStore
import StorePlatform
import StoreSharing

/// Why a tool failed, where the reason is not an error of a store (`StoreError`), of SQLite (`DatabaseError`) or of the
/// system (`SystemError`).
///
/// Errors compare by their ``code``: `catch let error as ToolError where error.code == .exists`.
public struct ToolError: Error, Sendable {
    /// The kind of the error. The raw value is a stable name for programs.
    public enum Code: String, Hashable, Sendable, CaseIterable {
        /// The input file does not exist.
        case noSuchFile
        /// The directory of the file to be created does not exist.
        case noDirectory
        /// The file to be created, or one that belongs to it, already exists.
        case exists
        /// The file to be created has a name of the files of its source.
        case storeName
        /// The file is not a plain SQLite database.
        case notPlain
        /// The plain database cannot be read without writing: its journal or WAL needs recovery.
        case plainNeedsRecovery
        /// The file is not an SQLCipher database that can become a store.
        case notAdoptable
        /// The path is a directory, a device, a pipe or a socket instead of a file.
        case notRegular
        /// The file to be adopted is a store already.
        case alreadyStore
        /// The WAL that was given belongs to another store, or is from before a rotation.
        case foreignWAL
        /// The key opens the file with the settings of another version of SQLCipher.
        case otherVersion
        /// The store cannot be read without creating files beside it, which this user may not.
        case needsWriting
        /// The file is mostly holes: no store is, and reading it would take for ever.
        case sparse
        /// The sample store that is attacked in place of the one under test cannot be made.
        case noSample
        /// A table cannot be copied without a function or a collation that only its program has.
        case missingPart
        /// The result, read back, differs from its source. Nothing was put in place.
        case contentDiffers
        /// A store was made and verified, and a last step failed.
        case importInterrupted
        /// The file is converted, and a step after that failed.
        case adoptionInterrupted
        /// The store is complete, and a later step with it failed: see ``ToolError/cause``.
        case incomplete
    }

    public let code: Code
    /// The event.
    public let what: String
    /// Why it happened.
    public let why: String
    /// The remedy.
    public let remedy: String
    /// The error that caused this one; nil where there is none.
    public let cause: (any Error)?

    package init(_ code: Code, what: String, why: String, remedy: String, cause: (any Error)? = nil) {
        self.code = code
        self.what = what
        self.why = why
        self.remedy = remedy
        self.cause = cause
    }

    /// Refuses to make a file at a name that belongs to another store.
    ///
    /// - Parameters:
    ///   - store: The database file of the other store, or the folder of a backup.
    ///   - noun: The kind of the new file.
    package static func requireForeign(_ path: String, to store: String, _ noun: String) throws(ToolError) {
        guard StorePaths(BackupBundle.database(meantBy: store)).owns(path) else { return }
        throw ToolError(
            .storeName, what: "\"\(path)\" is no name for a \(noun).",
            why: "It belongs to \"\(store)\": a file there would be taken for a part of it.",
            remedy: "Choose another name.")
    }

    /// Refuses a path whose folder does not exist, or lies behind a symbolic link of another user.
    ///
    /// - Throws: ``ToolError`` `noDirectory`; `StoreError` `storeName`; `SystemError`.
    package static func requireDirectory(for path: String) throws {
        let directory = Files.directory(of: path)
        guard try Files.kind(directory) != .directory else { return try OtherUserLink.refuse(directory) }
        if path.hasSuffix("/") {
            throw ToolError(
                .noDirectory, what: "\"\(path)\" cannot be created.",
                why: "The path of a new file has a slash at its end.",
                remedy: "Remove the slash.")
        }
        throw ToolError(
            .noDirectory, what: "\"\(path)\" cannot be created.",
            why: try Files.kind(directory) == nil
                ? "The directory \"\(directory)\" does not exist." : "\"\(directory)\" is not a directory.",
            remedy: try Files.kind(directory) == nil ? "Create it, or check the path." : "Check the path.")
    }

    /// Refuses to copy a table that only its program can copy.
    ///
    /// - Parameters:
    ///   - parts: What is missing, such as `function uuid`; nil where that is not known.
    ///   - reason: Why values alone do not suffice, as the end of a sentence.
    static func missingPart(table: String, _ parts: String?, because reason: String) -> ToolError {
        let needed = parts.map { "it needs \($0), which this program lacks, and " } ?? ""
        return ToolError(
            .missingPart, what: "The table \"\(table)\" cannot be copied.", why: "The reason: \(needed)\(reason).",
            remedy: "Let the program copy the database that has these functions and collations: it gives its "
                + "`prepareDatabase` to the `configuration` of StoreImport, StoreExport or StoreAdoption of StoreTools. "
                + "Nothing was created.")
    }

    /// The text and the reason of any error that a tool throws.
    package static func explanation(of error: any Error) -> String {
        switch error {
        case let error as ToolError: "\(error.what) \(error.why)"
        case let error as StoreError: "\(error.what) \(error.why)"
        case let error as DatabaseError: error.description
        case let error as SystemError: error.description
        case is CancellationError: "The command was interrupted."
        default: "\(error)"
        }
    }
}

extension ToolError: CustomStringConvertible {
    public var description: String { "\(code.rawValue): \(what) \(why) \(remedy)" }
}

extension ToolError {
    /// The file that a tool shall read does not exist.
    static func noFile(
        _ path: String, why: String = "The path does not exist.", remedy: String = "Check the path."
    ) -> ToolError { ToolError(.noSuchFile, what: "There is no file \"\(path)\".", why: why, remedy: remedy) }
}
