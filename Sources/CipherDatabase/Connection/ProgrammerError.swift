/// The one place where this library ends the program: errors of the program that no error value could repair, each
/// documented where it can be made.
@usableFromInline
package enum ProgrammerError {
    /// Ends the program with a message, in release builds too.
    package static func trap(_ message: String, file: StaticString = #fileID, line: UInt = #line) -> Never {
        fatalError(message, file: file, line: line)
    }

    /// Ends the program unless a condition holds.
    @usableFromInline
    static func require(
        _ condition: Bool, _ message: @autoclosure () -> String, file: StaticString = #fileID, line: UInt = #line
    ) {
        if !condition { trap(message(), file: file, line: line) }
    }

    static let transactionLeftOpen = "A transaction has been left opened at the end of a database access"
    static let reentrant = "Database methods are not reentrant."
    static let wrongThread = "Database was not used on the correct thread."
}
