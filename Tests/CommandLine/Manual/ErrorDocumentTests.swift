import Foundation
import Testing

@Suite("The table of Docs/Errors.md")
struct ErrorDocumentTests {
    private func text(_ path: String) throws -> String {
        try String(contentsOf: Workplace.repositoryRoot.appendingPathComponent(path), encoding: .utf8)
    }

    @Test("it has every code of StoreError, and no code that does not exist")
    func codes() throws {
        let source = try text("Sources/StorePlatform/Errors/StoreError.swift")
        let declarations = try #require(source.range(of: "public let code: Code")).lowerBound
        let codes = Set(source[..<declarations].matches(of: #/\n {8}case (\w+)/#).map { String($0.1) })
        #expect(codes.contains("wrongKey") && codes.contains("tooManySlots"))

        let table = try #require(text("Docs/Errors.md").components(separatedBy: "\n## Sync").first)
        let rows = table.split(separator: "\n").filter { $0.hasPrefix("| `") && !$0.hasPrefix("| `DatabaseError`") }
        let cells = rows.compactMap { $0.split(separator: "|").first }
        let named = Set(cells.flatMap { cell in cell.matches(of: #/`(\w+)`/#).map { String($0.1) } })
        #expect(codes.subtracting(named).sorted() == [])
        #expect(named.subtracting(codes).sorted() == [])
    }
}
