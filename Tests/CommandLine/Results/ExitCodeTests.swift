import CipherStore
import Foundation
import Testing

@testable import cipherctl

@Suite("Exit codes")
struct ExitCodeTests {
    /// One value of each code; the switch fails to compile when a code is new.
    private static let codes: [StoreError.Code] = [
        .unsupportedLibrary, .unsupportedFilesystem, .invalidKey, .wrongKey, .keyMissing, .saltMissing,
        .sidecarDamaged, .sidecarForged, .sidecarRolledBack, .sidecarAhead, .foreignSidecar, .settingsConflict,
        .modeConflict, .notEncrypted, .headerDamaged, .pageDamaged(7), .truncated, .emptyFile, .databaseMissing,
        .walMissing,
        .noSuchStore,
        .keyRotated(from: 1, to: 2),
        .rotationPending, .storeInUse, .storeMoved, .hardLinked, .storeClosed, .schemaAhead,
        .slotNotFound, .lastSlot, .tooManySlots, .walDamaged, .journalUntrusted, .alreadyExists, .backupDamaged,
        .backupReadOnly, .storeName, .pathTooLong, .erasureRefused, .notOwner,
    ]

    private static func isListed(_ code: StoreError.Code) -> Bool {
        switch code {
        case .unsupportedLibrary, .unsupportedFilesystem, .invalidKey, .wrongKey, .keyMissing, .saltMissing,
            .sidecarDamaged, .sidecarForged, .sidecarRolledBack, .sidecarAhead, .foreignSidecar, .settingsConflict,
            .modeConflict, .notEncrypted, .headerDamaged, .pageDamaged, .truncated, .emptyFile, .databaseMissing,
            .walMissing,
            .noSuchStore, .keyRotated,
            .rotationPending,
            .storeInUse, .storeMoved, .hardLinked, .storeClosed, .schemaAhead, .slotNotFound, .lastSlot,
            .tooManySlots, .walDamaged, .journalUntrusted, .alreadyExists, .backupDamaged, .backupReadOnly, .storeName,
            .pathTooLong, .erasureRefused, .notOwner:
            codes.contains { $0.name == code.name }
        }
    }

    /// The rows of a table of Docs/Commands.md whose first cell is code: name and number.
    private func documentedCodes() throws -> [String: Int32] {
        let text = try String(
            contentsOf: Workplace.repositoryRoot.appendingPathComponent("Docs/Commands.md"), encoding: .utf8)
        var codes: [String: Int32] = [:]
        for line in text.split(separator: "\n") where line.hasPrefix("| `") {
            let cells = line.split(separator: "|").map { $0.trimmingCharacters(in: .whitespaces) }
            guard cells.count == 2, let number = Int32(cells[1]) else { continue }
            for name in cells[0].split(separator: ",") {
                codes[name.trimmingCharacters(in: CharacterSet(charactersIn: " `"))] = number
            }
        }
        return codes
    }

    @Test("each StoreError has the exit code that the documented table gives it")
    func storeErrors() throws {
        let documented = try documentedCodes()
        for code in Self.codes {
            #expect(Self.isListed(code))
            #expect(documented[code.name] == ExitCode(code).rawValue, "\(code.name)")
        }
        let names = Set(Self.codes.map(\.name))
        #expect(documented.keys.filter { !$0.hasPrefix("SQLITE_") }.allSatisfy(names.contains))
    }

    @Test("each primary code of SQLite has the exit code that the documented table gives it, and 1 without a row")
    func sqliteErrors() throws {
        let documented = try documentedCodes()
        let primary: [String: ResultCode] = [
            "SQLITE_ERROR": .SQLITE_ERROR, "SQLITE_PERM": .SQLITE_PERM, "SQLITE_ABORT": .SQLITE_ABORT,
            "SQLITE_BUSY": .SQLITE_BUSY, "SQLITE_LOCKED": .SQLITE_LOCKED, "SQLITE_NOMEM": .SQLITE_NOMEM,
            "SQLITE_READONLY": .SQLITE_READONLY, "SQLITE_INTERRUPT": .SQLITE_INTERRUPT, "SQLITE_IOERR": .SQLITE_IOERR,
            "SQLITE_CORRUPT": .SQLITE_CORRUPT, "SQLITE_FULL": .SQLITE_FULL, "SQLITE_CANTOPEN": .SQLITE_CANTOPEN,
            "SQLITE_PROTOCOL": .SQLITE_PROTOCOL, "SQLITE_SCHEMA": .SQLITE_SCHEMA, "SQLITE_NOLFS": .SQLITE_NOLFS,
            "SQLITE_CONSTRAINT": .SQLITE_CONSTRAINT, "SQLITE_MISUSE": .SQLITE_MISUSE, "SQLITE_AUTH": .SQLITE_AUTH,
            "SQLITE_FORMAT": .SQLITE_FORMAT, "SQLITE_NOTADB": .SQLITE_NOTADB, "SQLITE_TOOBIG": .SQLITE_TOOBIG,
        ]
        for (name, code) in primary { #expect(ExitCode(code).rawValue == documented[name] ?? 1, "\(name)") }
        #expect(ExitCode(ResultCode.SQLITE_BUSY_SNAPSHOT) == .tryAgain)
        #expect(documented.keys.filter { $0.hasPrefix("SQLITE_") }.allSatisfy { primary[$0] != nil })
    }

    @Test("failed system calls are told apart")
    func systemErrors() {
        func code(_ number: Int32) -> ExitCode { ExitCode(SystemError(call: "open", path: "x", errorNumber: number)) }
        #expect(code(ENOENT) == .noSuchStore)
        #expect(code(EACCES) == .notPermitted)
        #expect(code(EROFS) == .notPermitted)
        #expect(code(EAGAIN) == .tryAgain)
        #expect(code(ENOSPC) == .inputOutput)
        #expect(code(EIO) == .inputOutput)
    }

    @Test("every exit code stands in the documented list and in the help")
    func everyCodeIsDocumented() throws {
        let text = try String(
            contentsOf: Workplace.repositoryRoot.appendingPathComponent("Docs/Commands.md"), encoding: .utf8)
        let help = try Help.topic(["exit-codes"])
        for code in ExitCode.allCases {
            #expect(text.contains("\n| \(code.rawValue) | "), "\(code)")
            #expect(help.contains(" \(code.rawValue)  "), "\(code)")
        }
    }
}
