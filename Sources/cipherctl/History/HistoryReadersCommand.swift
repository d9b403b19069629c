import CipherStore
import Foundation
import StorePlatform
import StoreTools

/// `history readers STORE`: lists who reads the history, and forgets readers that are gone.
struct HistoryReadersCommand: Command {
    static let syntax = CommandSyntax(
        name: "history readers",
        summary: "list the registered readers of the history; exit code 2 when one has expired",
        operands: [OperandSyntax("STORE", "the store, or the folder of a backup; it may be in use")],
        options: [
            OptionSyntax("--remove", value: "NAME", "forget this reader; nothing is kept for it from then on"), .json,
            .quiet,
        ] + KeyOptions.all,
        examples: [
            "cipherctl history readers app.db --key-file app.key",
            "cipherctl history readers app.db --remove search-index --key-file app.key",
        ],
        notes: [
            "Changes are kept until all registered readers have acknowledged them, within the limits of the history. "
                + "A reader that was slower than that has expired: it must read everything again."
        ])

    private let path: String
    private let removed: String?
    private let arguments: ParsedArguments
    var changesFiles: Bool { removed != nil }

    init(_ arguments: ParsedArguments) throws {
        self.arguments = arguments
        path = BackupBundle.database(meantBy: arguments.operands[0])
        removed = arguments.value("--remove")
    }

    func run(_ console: Console) throws -> ExitCode {
        if removed != nil { try BackupBundle.refuse(writing: path) }
        let key = try UnlockedKey(KeyOptions.source(arguments), console)
        if removed != nil { Interruption.beginWork() }
        let store =
            try removed == nil
            ? StoreOpening.readOnly(path, key, onNotice: console.note)
            : StoreOpening.writable(path, key, isCancelled: { Interruption.shared.isSet }, onNotice: console.note)
        defer { try? store.close() }
        if let removed { try Interruption.explaining { try store.write { try $0.removeHistoryReader(removed) } } }
        let readers = try store.read { try $0.historyReaders() }
        try console.report(
            json: .object(["store": .string(path), "readers": .array(readers.map(\.json))]),
            lines: readers.isEmpty ? ["no reader is registered"] : readers.map(\.line))
        return readers.contains(where: \.isExpired) ? .needsAttention : .ok
    }
}

extension HistoryReader {
    /// For people.
    var line: String {
        let state = expirationReason.map { "expired: \($0)" } ?? "\(CountText.text(lag, "change")) behind"
        return "\"\(name)\", \(state), last acknowledged \(HistoryReport.moment(date))"
    }

    /// For programs.
    var json: JSON {
        .object([
            "name": .string(name), "token": .string("\(token)"), "lag": .integer(lag),
            "acknowledged": .string(HistoryReport.moment(date)), "expired": .optional(expirationReason, JSON.string),
        ])
    }
}
