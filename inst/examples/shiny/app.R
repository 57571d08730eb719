# Heat spreads over a plate. The program compiles while the page already works, then runs for seconds, and the clock
# never stops: R is free while the device computes.
#
#   shiny::runApp(system.file("examples", "shiny", package = "pjrt"))

library(shiny)
library(promises)
library(pjrt)

size <- 400L
frames <- 12L

# Time steps of the heat equation. The edge of the plate stays cold.
program <- pjrt_program("
func.func @main(%heat: tensor<{DIM}xf32>) -> tensor<{DIM}xf32> {
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %rate = stablehlo.constant dense<0.2> : tensor<{DIM}xf32>
  %four = stablehlo.constant dense<4.0> : tensor<{DIM}xf32>
  %first = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %last = stablehlo.constant dense<{STEPS}> : tensor<i32>
  %r:2 = stablehlo.while(%i = %first, %u = %heat) : tensor<i32>, tensor<{DIM}xf32>
  cond {
    %c = stablehlo.compare LT, %i, %last : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %up = stablehlo.pad %u, %zero, low = [-1, 0], high = [1, 0], interior = [0, 0]
      : (tensor<{DIM}xf32>, tensor<f32>) -> tensor<{DIM}xf32>
    %down = stablehlo.pad %u, %zero, low = [1, 0], high = [-1, 0], interior = [0, 0]
      : (tensor<{DIM}xf32>, tensor<f32>) -> tensor<{DIM}xf32>
    %left = stablehlo.pad %u, %zero, low = [0, -1], high = [0, 1], interior = [0, 0]
      : (tensor<{DIM}xf32>, tensor<f32>) -> tensor<{DIM}xf32>
    %right = stablehlo.pad %u, %zero, low = [0, 1], high = [0, -1], interior = [0, 0]
      : (tensor<{DIM}xf32>, tensor<f32>) -> tensor<{DIM}xf32>
    %a = stablehlo.add %up, %down : tensor<{DIM}xf32>
    %b = stablehlo.add %left, %right : tensor<{DIM}xf32>
    %around = stablehlo.add %a, %b : tensor<{DIM}xf32>
    %here = stablehlo.multiply %u, %four : tensor<{DIM}xf32>
    %difference = stablehlo.subtract %around, %here : tensor<{DIM}xf32>
    %change = stablehlo.multiply %rate, %difference : tensor<{DIM}xf32>
    %v = stablehlo.add %u, %change : tensor<{DIM}xf32>
    %j = stablehlo.add %i, %one : tensor<i32>
    stablehlo.return %j, %v : tensor<i32>, tensor<{DIM}xf32>
  }
  return %r#1 : tensor<{DIM}xf32>
}", types = list(DIM = c(size, size), STEPS = "3000"))

# Three hot spots.
start <- matrix(0, size, size)
start[120:180, 80:140] <- start[240:300, 240:260] <- start[60:80, 280:360] <- 1

ui <- fluidPage(
  titlePanel("Heat"),
  p("Clock: ", textOutput("clock", inline = TRUE)),
  p("Status: ", textOutput("status", inline = TRUE)),
  actionButton("start", "Start"),
  plotOutput("plot", width = "400px", height = "400px")
)

# The compiler works while Shiny starts. All users share the executable.
compiling <- pjrt_compile_async(program)

server <- function(input, output, session) {
  status <- reactiveVal("compiling")
  heat <- reactiveVal(start)
  clock <- reactiveVal(0L)

  then(
    compiling, onFulfilled = function(executable) status("ready"), onRejected = function(e) status(conditionMessage(e))
  )

  # Executes once, and again when that is ready. The observer does not return the promise: Shiny would hold back all
  # outputs of the session until it is resolved.
  advance <- function(buffer, frame) {
    status(sprintf("computing frame %d of %d", frame, frames))
    then(pjrt_execute(value(compiling), buffer), onFulfilled = function(buffer) {
      heat(as_array(buffer))
      if (frame < frames) advance(buffer, frame + 1L) else status("done")
    }, onRejected = function(e) status(conditionMessage(e)))
    NULL
  }
  observeEvent(input$start, if (status() %in% c("ready", "done")) advance(pjrt_buffer(start, "f32"), 1L))

  observe({
    invalidateLater(100)
    clock(isolate(clock()) + 1L)
  })
  output$clock <- renderText(clock())
  output$status <- renderText(status())
  output$plot <- renderPlot({
    par(mar = rep(0, 4))
    image(heat(), zlim = c(0, 1), useRaster = TRUE, axes = FALSE)
  })
}

shinyApp(ui, server)
