import CipherStore
import StoreFleet
import StorePlatform
import StoreSharing
import StoreTools

/// How long the WAL of a store may become, and how much space must be free for it.
struct SpacePolicy {
    static let options = [
        OptionSyntax("--max-wal", value: "BYTES", "how long the WAL may be, as 64MiB; any length unless given"),
        OptionSyntax(
            "--min-free", value: "BYTES", "how much space must be free on the store's filesystem, as 1GiB"),
    ]

    private let longestWAL: Int?
    private let leastFree: Int?

    /// - Throws: ``UsageError`` for what is no number of bytes.
    init(_ arguments: ParsedArguments) throws(UsageError) {
        longestWAL = try Self.bytes("--max-wal", arguments)
        leastFree = try Self.bytes("--min-free", arguments)
    }

    private static func bytes(_ name: String, _ arguments: ParsedArguments) throws(UsageError) -> Int? {
        guard let text = arguments.value(name) else { return nil }
        guard let bytes = ByteCountText.bytes(text) else {
            throw UsageError("\(name) is not a number of bytes.", hint: "For example: \(name) 512MiB")
        }
        return bytes
    }

    /// The bounds that a store exceeds.
    ///
    /// - Parameter walBytes: Length of the WAL.
    func findings(_ path: String, walBytes: Int) -> [Finding] {
        var findings: [Finding] = []
        if let longestWAL, walBytes > longestWAL {
            findings.append(
                Finding(
                    .risk, "walLong", "the WAL has \(walBytes) bytes, and at most \(longestWAL) are allowed",
                    remedy: "end the processes that read an old snapshot: `cipherctl status` names them"))
        }
        guard let leastFree else { return findings }
        if let free = Self.freeBytes(path) {
            guard free < leastFree else { return findings }
            findings.append(
                Finding(
                    .risk, "spaceLow",
                    "\(free) bytes are free on the filesystem of the store, and at least \(leastFree) "
                        + "are wanted", remedy: "free space there"))
        } else {
            findings.append(
                Finding(.risk, "spaceUnknown", "the free space on the filesystem of the store is not known"))
        }
        return findings
    }

    /// Free bytes on the filesystem of a store; nil where the system does not tell.
    static func freeBytes(_ path: String) -> Int? {
        try? Files.freeBytes(at: Files.directory(of: StorePaths(path).database))
    }
}
