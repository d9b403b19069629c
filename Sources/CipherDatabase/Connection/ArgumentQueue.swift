/// The arguments of several statements, each of which takes its own from the front.
struct ArgumentQueue {
    let arguments: StatementArguments
    private var taken = 0
    private var mayHaveTakenNames = false

    init(_ arguments: StatementArguments) { self.arguments = arguments }

    /// The arguments of the next statement. All statements share named values.
    mutating func values(for statement: Statement) -> StatementArguments {
        var values = StatementArguments()
        if !arguments.namedValues.isEmpty && statement.hasNamedParameters {
            values.namedValues = arguments.namedValues
            mayHaveTakenNames = true
        }
        let count = statement.positionalParameterCount(beside: arguments.namedValues)
        let rest = arguments.values[taken...].prefix(count)
        values.values = Array(rest)
        taken += rest.count
        return values
    }

    /// Throws when values are left, and when there are names and no statement uses any: see ``StatementArguments``.
    func requireEnd(sql: String) throws {
        if !mayHaveTakenNames && !arguments.namedValues.isEmpty { throw arguments.unknownNames(sql: sql) }
        guard taken < arguments.values.count else { return }
        throw DatabaseError(
            resultCode: .SQLITE_MISUSE,
            message: "wrong number of statement arguments: \(arguments.values.count)", sql: sql.trimmingSQL())
    }
}
