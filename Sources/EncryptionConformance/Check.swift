/// One property of a store that is checked.
///
/// The raw value is its stable name in reports.
public enum Check: String, Hashable, Sendable, CaseIterable {
    case library
    case header
    case sidecar
    case fileModes
    case pages
    case walFrames
    case content
    case formerKeys
    case vectors
    case ciphertext
    case connections
    case temporaryFiles
    case canary
    case keySecrecy
    case coreImage
    case wrongKey
    case plainSQLite
    case stockSQLCipher
    case attackBitFlip
    case attackSwappedPages
    case attackOtherSalt
    case attackTruncation
    case attackReserve
    case attackPageCount
    case attackEmptyFile
    case attackPlainWriter
    case attackSidecar
    case attackSamePageKey
    case attackOldPage
    case attackOldFiles
    case attackLostWAL
    case attackDamagedWAL

    /// Whether it attacks a sample store, and checks whether the attack is detected.
    public var isAttack: Bool { rawValue.hasPrefix("attack") }

    /// The subject of the check, in a few words.
    public var title: String { texts.title }
    /// The proof that a pass gives.
    public var proves: String { texts.proves }
    /// The limits of that proof.
    public var cannotProve: String { texts.cannotProve }

    private struct Texts {
        let title: String
        let proves: String
        let cannotProve: String

        init(_ title: String, _ proves: String, not cannotProve: String) {
            (self.title, self.proves, self.cannotProve) = (title, proves, cannotProve)
        }
    }

    private var texts: Texts { isAttack ? attackTexts : fileTexts ?? useTexts }

    /// The checks of the files.
    private var fileTexts: Texts? {
        switch self {
        case .header:
            Texts(
                "the header is exactly as allowed",
                "the file has the form of a store, and no fixed byte of its readable header was changed.",
                not: "that bytes 24 to 31 (change counter, page count) are the writer's: nothing authenticates them.")
        case .sidecar:
            Texts(
                "the sidecar is genuine, in both copies",
                "salt, settings and keyslots are those that a holder of a key wrote, and a second copy exists.",
                not: "that it is the newest: both copies could have been put back together with the database.")
        case .fileModes:
            Texts(
                "no file is open to every user of the machine",
                "every file of the store is a regular file that not every user may read or write.",
                not: "what its group, the mode of its folder, access control lists, backups and root permit.")
        case .pages:
            Texts(
                "every page of the database is authentic under the present key",
                "each page was written by a holder of the present data key, for its place, and is unchanged.",
                not: "that it is the newest version of the page, or that the writer was entitled to write it.")
        case .walFrames:
            Texts(
                "every committed frame of the WAL is authentic under the present key",
                "no commit in the WAL was changed or written under another key.",
                not: "that no commit is missing: the checksums of a WAL need no key.")
        case .content:
            Texts(
                "it can be opened, and SQLite finds its content consistent",
                "the library opens the store, and integrity_check and foreign_key_check find nothing.",
                not: "that the rows are those that the program wrote.")
        case .formerKeys:
            Texts(
                "no page is under a former key",
                "the rotation re-encrypted every page: none is authentic under a former key that was given.",
                not: "anything about former keys that were not given, or about copies made before the rotation.")
        case .vectors:
            Texts(
                "no initialization vector is used twice",
                "no two page images that are stored now were encrypted with the same vector.",
                not: "anything about images that were overwritten.")
        case .ciphertext:
            Texts(
                "the pages look random",
                "byte values of the encrypted parts are spread as evenly as random ones, on each page and together.",
                not: "that they are encrypted: compressed data looks random too. Authentication is the proof.")
        default: nil
        }
    }

    /// The checks of the use of a store by programs.
    private var useTexts: Texts {
        switch self {
        case .library:
            Texts(
                "the library is an SQLCipher 4, and the one that is claimed",
                "the library that runs in this process encrypts, and has the version that it is said to have.",
                not: "that its code is unchanged, or anything about other processes.")
        case .connections:
            Texts(
                "every connection has the required settings",
                "the writer and all readers keep temporary data in memory, use the cipher settings of the store, and "
                    + "leave checkpoints to the library.",
                not: "anything about connections of other programs.")
        case .temporaryFiles:
            Texts(
                "a large sort writes no temporary file",
                "a sort that exceeds every cache made no file, which would have been plaintext.",
                not: "that the system's swap space is encrypted.")
        case .canary:
            Texts(
                "a marker is found nowhere in readable form",
                "a text that was written, sorted and copied is in no file of the store, in no folder or log that "
                    + "was named, and not in the arguments or the environment of this process.",
                not: "anything about places that were not named.")
        case .keySecrecy:
            Texts(
                "the key is in no trace, no error, no argument and not in the environment",
                "SQL traces, error texts, and the arguments and environment of this process do not hold the key.",
                not: "that no copy of it is in the memory of the process: SQLCipher needs one.")
        case .coreImage:
            Texts(
                "a crash leaves no core image",
                "this process or its limits forbid core dumps, which would hold the key of an open store.",
                not: "anything about root, debuggers, swap space and processes that are not this one.")
        case .wrongKey:
            Texts(
                "a wrong key is refused, and not mistaken for damage",
                "another key is refused as a wrong key; a damaged page 1 with the right key is reported as damage.",
                not: "that passphrases cannot be guessed.")
        case .plainSQLite:
            Texts(
                "SQLite without the key cannot read it",
                "SQLite itself, without a key, cannot read even the schema.", not: "the strength of the encryption.")
        default:
            Texts(
                "SQLCipher reads it with the revealed key",
                "the file is SQLCipher's format: key, salt and header size are all that is needed to read it.",
                not: "that every version of SQLCipher reads it.")
        }
    }

    private var attackTexts: Texts {
        let limit = "that other attacks of this kind are noticed: it is one attack on a sample store."
        return switch self {
        case .attackBitFlip: Texts("attack: one bit of a page is changed", "it is noticed.", not: limit)
        case .attackSwappedPages: Texts("attack: two pages are exchanged", "it is noticed.", not: limit)
        case .attackOtherSalt: Texts("attack: a page under the same key and another salt", "it is noticed.", not: limit)
        case .attackTruncation: Texts("attack: the last page is cut off", "it is noticed.", not: limit)
        case .attackReserve:
            Texts(
                "attack: byte 20 of the header is changed", "it is noticed before a write corrupts pages.", not: limit)
        case .attackPageCount:
            Texts(
                "attack: the page count of the header is lowered", "it is noticed before a write overwrites pages.",
                not: limit)
        case .attackEmptyFile:
            Texts("attack: the database is emptied", "it is not taken for a new database.", not: limit)
        case .attackPlainWriter:
            Texts(
                "attack: SQLite without a key writes to the file", "the damage is noticed.",
                not: "that it is prevented: file modes do that.")
        case .attackSidecar:
            Texts("attack: both copies of the sidecar are changed", "it is noticed.", not: limit)
        case .attackSamePageKey:
            Texts("attack: another page under the same key and salt", "it is noticed.", not: limit)
        case .attackOldPage: Texts("attack: an older version of one page", "it is noticed.", not: limit)
        case .attackOldFiles: Texts("attack: all files are put back to an earlier state", "it is noticed.", not: limit)
        case .attackLostWAL: Texts("attack: the WAL is deleted", "the loss of its commits is noticed.", not: limit)
        default: Texts("attack: a bit of the WAL is changed", "the loss of its commits is noticed.", not: limit)
        }
    }
}

/// The result of a check.
public enum Verdict: String, Hashable, Sendable, CaseIterable {
    case pass
    case fail
    /// The store has nothing to which the check applies, or it could not be made: the evidence says why.
    case notApplicable = "not_applicable"
    /// The attack is not noticed, which the threat model says; the evidence names what would notice it.
    case knownLimit = "known_limit"
}

/// A check with its verdict and evidence.
public struct CheckResult: Sendable {
    public let check: Check
    public let verdict: Verdict
    /// The evidence, one sentence each.
    public let evidence: [String]
    /// The remedy; nil if none is needed.
    public let remedy: String?

    /// The beginning of evidence that names something which could not be checked.
    static let notChecked = "not checked: "

    init(_ check: Check, _ verdict: Verdict, _ evidence: [String], remedy: String? = nil) {
        self.check = check
        self.verdict = verdict
        let shown = evidence.prefix(ConformanceLimits.evidenceLines)
        let rest = evidence.count - shown.count
        self.evidence = shown + (rest > 0 ? ["... and \(rest) more"] : [])
        self.remedy = remedy
    }

    init(_ check: Check, _ verdict: Verdict, _ evidence: String..., remedy: String? = nil) {
        self.init(check, verdict, evidence, remedy: remedy)
    }

    /// A pass without findings, else a failure with them.
    init(_ check: Check, findings: [String], passing: [String], remedy: String? = nil) {
        self.init(
            check, findings.isEmpty ? .pass : .fail, findings.isEmpty ? passing : findings,
            remedy: findings.isEmpty ? nil : remedy)
    }
}

extension CheckResult: CustomStringConvertible {
    public var description: String {
        "\(verdict.rawValue) \(check.rawValue): \(check.title)" + evidence.map { "\n    \($0)" }.joined()
            + (remedy.map { "\n    -> \($0)" } ?? "")
    }
}
